package event

import (
	"sync"
	"testing"
	"time"
)

func TestAClockThatIsSetBackMakesNoOlderIDs(t *testing.T) {
	now := time.Now()
	newest := NewID(now)
	for _, back := range []time.Duration{0, time.Millisecond, time.Hour} {
		id := NewID(now.Add(-back))
		if id.Compare(newest) <= 0 {
			t.Errorf("%v back, %x came after %x", back, id, newest)
		}
		newest = id
	}
}

func TestIDsOfOneMomentKeepTheirOrderWhoeverAsks(t *testing.T) {
	now := time.Now()
	before := NewID(now)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				if id := NewID(now); id.Compare(before) <= 0 {
					t.Errorf("%x came after %x", id, before)
				}
			}
		})
	}
	all.Wait()
}

func TestOnlyTheZeroIDNamesNothing(t *testing.T) {
	if !(ID{}).IsZero() || NewID(time.Now()).IsZero() {
		t.Error("zero and made ids are not told apart")
	}
}
