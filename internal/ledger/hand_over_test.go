package ledger_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// handed is a delivery that a relay has handed over.
func (b *books) handed(t testing.TB, target event.TargetID) (ledger.Debt, event.Claim) {
	t.Helper()
	debt := b.owe(t, target, 1)[0]
	c := b.claim(t, b.worker, target, 1)[0]
	if stands, err := b.HandOver(t.Context(), b.worker, c.Fence, time.Hour); !stands || err != nil {
		t.Fatalf("not handed over: %v", err)
	}
	return debt, c
}

func (b *books) taken(t testing.TB, worker, by event.WorkerID, f event.Fence) bool {
	t.Helper()
	_, _, err := b.Take(t.Context(), worker, by, f)
	if err != nil && !errors.Is(err, ledger.ErrClaimLost) {
		t.Error(err)
	}
	return err == nil
}

// T47: of any number of takes with one proof one succeeds.
func TestOfManyTakesOfOneHandOverOneSucceeds(t *testing.T) {
	b := open(t)
	debt, c := b.handed(t, b.target(t, "k"))
	if b.record(t, b.worker, success(c))[0] {
		t.Error("the relay records what it has handed over")
	}
	var won atomic.Int32
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			if b.taken(t, b.worker+1+event.WorkerID(n), b.worker, c.Fence) {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d took it", won.Load())
	}
	if d := b.find(t, debt.ID); d.Status != event.Claimed || d.LeaseUntil.Sub(d.ClaimedAt) < time.Hour {
		t.Errorf("got %+v", d)
	}
}

// T48: what is no claim in force is the proof of nothing, each in its own way.
func TestAProofOfAnotherClaimTakesNothing(t *testing.T) {
	b := open(t)
	other, err := b.Enroll(t.Context(), "w2")
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(t *testing.T, c event.Claim) (event.WorkerID, event.Fence){
		"another worker's": func(_ *testing.T, c event.Claim) (event.WorkerID, event.Fence) { return other, c.Fence },
		"an earlier claim": func(_ *testing.T, c event.Claim) (event.WorkerID, event.Fence) {
			return b.worker, event.Fence{Delivery: c.Delivery, ClaimedAt: c.ClaimedAt.Add(-time.Microsecond)}
		},
		"taken back": func(t *testing.T, c event.Claim) (event.WorkerID, event.Fence) {
			if err := b.TakeBack(t.Context(), b.worker, c.Fence); err != nil {
				t.Fatal(err)
			}
			return b.worker, c.Fence
		},
		"never handed over": func(t *testing.T, c event.Claim) (event.WorkerID, event.Fence) {
			b.exec(t, `UPDATE eventsvc.owed SET claimed_by = abs(claimed_by) WHERE id = $1`, [16]byte(c.Delivery))
			return b.worker, c.Fence
		},
		"paused": func(t *testing.T, c event.Claim) (event.WorkerID, event.Fence) {
			b.exec(t, `UPDATE eventsvc.targets SET paused_at = now() WHERE id = $1`, int32(c.TargetID))
			return b.worker, c.Fence
		},
		"claimed anew": func(t *testing.T, c event.Claim) (event.WorkerID, event.Fence) {
			b.exec(t, `UPDATE eventsvc.owed SET lease_until = now() - interval '1 us' WHERE id = $1`, [16]byte(c.Delivery))
			if again := b.claim(t, b.worker, c.TargetID, 1); len(again) != 1 {
				t.Fatal("not claimed again")
			}
			return b.worker, c.Fence
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := b.handed(t, b.target(t, name))
			by, fence := spoil(t, c)
			if b.taken(t, other, by, fence) {
				t.Error("taken")
			}
		})
	}
}

// A hand-over that nobody took was no attempt: no worker was lost under it, however often.
func TestAHandOverThatNobodyTakesIsNoLostClaim(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1)[0]
	for n := range 12 {
		c := b.claim(t, b.worker, target, 1)
		if len(c) != 1 {
			t.Fatalf("claim %d was not given", n)
		}
		if stands, err := b.HandOver(t.Context(), b.worker, c[0].Fence, time.Minute); !stands || err != nil {
			t.Fatal(stands, err)
		}
		if d := b.find(t, debt.ID); d.Status != event.Claimed || d.ClaimedBy != "w1" {
			t.Fatalf("shown as %+v", d)
		}
		b.exec(t, `UPDATE eventsvc.owed SET lease_until = now() - interval '1 us'`)
	}
	if trail := b.attempts(t, debt); len(trail) != 0 {
		t.Errorf("the trail has %d attempts", len(trail))
	}
	// One whose worker is lost after it took it is one like any other.
	c := b.claim(t, b.worker, target, 1)[0]
	if stands, err := b.HandOver(t.Context(), b.worker, c.Fence, time.Minute); !stands || err != nil {
		t.Fatal(stands, err)
	}
	if !b.taken(t, b.worker, b.worker, c.Fence) {
		t.Fatal("not taken")
	}
	b.exec(t, `UPDATE eventsvc.owed SET lease_until = now() - interval '1 us'`)
	if again := b.claim(t, b.worker, target, 1); len(again) != 1 {
		t.Error("one lost worker makes poison of it: hand-overs were counted")
	}
	if trail := b.attempts(t, debt); len(trail) != 1 || trail[0].Outcome != event.OutcomeUnknown {
		t.Errorf("the trail is %+v", trail)
	}
}

// A hand-over of a claim that is lost changes nothing, and a taken one is not taken back.
func TestAHandOverIsFencedOnBothItsSides(t *testing.T) {
	b := open(t)
	_, c := b.handed(t, b.target(t, "k"))
	if stands, err := b.HandOver(t.Context(), b.worker, c.Fence, time.Hour); stands || err != nil {
		t.Errorf("handed over twice: %v", err)
	}
	if !b.taken(t, b.worker, b.worker, c.Fence) {
		t.Fatal("not taken")
	}
	if err := b.TakeBack(t.Context(), b.worker, c.Fence); err != nil {
		t.Fatal(err)
	}
	if d := b.find(t, c.Delivery); d.Status != event.Claimed {
		t.Errorf("a taken one went back: %+v", d)
	}
}
