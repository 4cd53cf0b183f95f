package fire

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// counter is a desk of which another group has the turn, and the group that waits for it.
type counter struct {
	*Desk
	waits chan bool // the answer of await
	*group
}

func newCounter() *counter {
	c := &counter{Desk: NewDesk(Options{}), waits: make(chan bool, 1), group: &group{}}
	c.turn <- struct{}{}
	c.add(slipOf("first", 1))
	go func() { c.waits <- c.await(c.group) }()
	synctest.Wait()
	return c
}

func slipOf(key string, bytes int) *slip {
	return newSlip(&Draft{Key: key, Type: "a.b", Data: make([]byte, bytes)}, nil)
}

// arrive has so many fires arrive, one after the other.
func (c *counter) arrive(n, bytes int) (slips []*slip) {
	for i := range n {
		s := slipOf(fmt.Sprint("k", i), bytes)
		slips = append(slips, s)
		c.in <- s
		synctest.Wait()
	}
	return slips
}

// A small group costs a round trip and a commit like a large one.
func TestFiresThatArriveDuringACommitAreOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		began := time.Now()
		c.arrive(20, 1)
		time.Sleep(slow / 2)
		c.arrive(20, 1)
		<-c.turn
		if mine := <-c.waits; !mine || time.Since(began) != slow/2 {
			t.Errorf("its turn: %v, after %v", mine, time.Since(began))
		}
		if n := len(c.taken()); n != 41 || len(c.turn) != 1 {
			t.Errorf("%d of 41 are of the group, and %d have the turn", n, len(c.turn))
		}
	})
}

func TestBesideACommitThatIsSlowAGroupBeginsAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		began := time.Now()
		time.Sleep(slow - 1)
		c.arrive(20, 1)
		if mine := <-c.waits; mine || time.Since(began) != slow {
			t.Errorf("its turn: %v, after %v", mine, time.Since(began))
		}
		if n := len(c.taken()); n != 21 {
			t.Errorf("%d of 21 are of the group", n)
		}
	})
}

func TestAGroupThatWaitsGrowsWithinItsBounds(t *testing.T) {
	for name, c := range map[string]struct{ arrive, bytes, want int }{
		"fires": {maxGroup + 10, 1, maxGroup},
		"bytes": {20, 256 << 10, 1 + maxGroupBytes/(256<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newCounter()
				d.arrive(c.arrive, c.bytes)
				<-d.turn
				<-d.waits
				d.fill(d.in)
				if n := len(d.slips); n != c.want || len(d.in) != c.arrive+1-c.want {
					t.Errorf("%d are of the group and %d are left, want a group of %d", n, len(d.in), c.want)
				}
			})
		})
	}
}

// P1: whoever was told that it is busy may fire elsewhere.
func TestACallerThatGivesUpWhileItsGroupWaitsIsNotOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		slips := c.arrive(3, 1)
		if !slips[1].state.CompareAndSwap(waiting, withdrawn) {
			t.Fatal("a caller whose group waits cannot give up")
		}
		<-c.turn
		<-c.waits
		group := c.taken()
		if len(group) != 3 || group[1] != slips[0] || group[2] != slips[2] {
			t.Errorf("%d are written, want the first, and two of the three", len(group))
		}
		if slips[0].state.CompareAndSwap(waiting, withdrawn) {
			t.Error("a caller gave up that is being written")
		}
	})
}
