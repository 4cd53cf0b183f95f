package relay_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// desk is a process that fires, without a relay.
type desk struct {
	*relay.Eager
	m    *memory
	log  *lines
	stop func()
	done chan struct{}
	mu   sync.Mutex
	left []event.TargetID
}

const eagerWorker event.WorkerID = 2

func hasty(t *testing.T, m *memory, c courier) *desk {
	d := &desk{m: m, log: &lines{}, done: make(chan struct{})}
	runner := relay.NewRunner(options(m, c, d.log))
	d.Eager = relay.NewEager(runner, eagerWorker, m, func(event.TargetID, *event.Result) {}, func(targets []event.TargetID) {
		d.mu.Lock()
		d.left = append(d.left, targets...)
		d.mu.Unlock()
	})
	ctx, cancel := context.WithCancel(t.Context())
	d.stop = cancel
	ran := make(chan struct{})
	go func() { runner.Run(ctx); close(ran) }()
	go func() { d.Run(ctx); <-ran; close(d.done) }()
	t.Cleanup(func() { cancel(); <-d.done })
	return d
}

// offer fires n events to a target and offers them.
func (d *desk) offer(target event.TargetID, n int) (ids []event.ID, left []ledger.Debt) {
	ids = d.m.owe(target, n, 5)
	debts := make([]ledger.Debt, n)
	for i, id := range ids {
		debts[i] = ledger.Debt{ID: id, TargetID: target}
	}
	return ids, d.Offer(debts)
}

func eager(key string) *event.Receiver {
	r := receiver(key)
	r.Eager = true
	return r
}

func slow(context.Context, *event.Claim) event.Verdict {
	time.Sleep(9 * time.Second)
	return event.Verdict{Ruling: event.Success}
}

func TestWhatIsEagerIsTriedAtOnceWithoutARelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(eager("k"))
		d := hasty(t, m, succeed)
		ids, left := d.offer(1, 3)
		synctest.Wait()
		for _, id := range ids {
			if m.status(id) != event.Succeeded {
				t.Errorf("%q", m.status(id))
			}
		}
		if len(left) != 0 || d.Counts().Tried.Load() != 3 || m.trail[0].Attempt.Number != 1 {
			t.Errorf("left %v, tried %d, trail %v", left, d.Counts().Tried.Load(), m.trail)
		}
	})
}

// The attempt counts, and the curve goes on from it.
func TestAnEagerAttemptThatFailsIsTheFirstOfTheCurve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(eager("k"))
		d := hasty(t, m, refuse)
		ids, _ := d.offer(1, 1)
		synctest.Wait()
		if r := m.at(ids[0]); r.Attempts != 1 || r.by != 0 || d.log.count("on attempt 1 with http_5xx; the row is failed") != 1 {
			t.Errorf("%d attempts, held by %d, said %s", r.Attempts, r.by, d.log.text.String())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(m.trail) != 1 {
			t.Errorf("%d attempts without a relay", len(m.trail))
		}
	})
}

// P5: of two eager attempts and a relay exactly one runs.
func TestOfARelayAndAnEagerAttemptOneRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(eager("k"))
		var mu sync.Mutex
		ran := map[event.ID]int{}
		count := func(ctx context.Context, c *event.Claim) event.Verdict {
			mu.Lock()
			ran[c.Delivery]++
			mu.Unlock()
			return slow(ctx, c)
		}
		d, other := hasty(t, m, count), hasty(t, m, count)
		s := start(t, m, count, func(o *relay.Options) { o.Worker = 3 })
		for range 20 {
			ids, _ := d.offer(1, 1)
			go other.Offer([]ledger.Debt{{ID: ids[0], TargetID: 1}})
			s.Wake([]event.TargetID{1})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for id, n := range ran {
			if n != 1 || m.status(id) != event.Succeeded {
				t.Errorf("%d attempts, %q", n, m.status(id))
			}
		}
		if len(ran) != 20 {
			t.Errorf("%d ran", len(ran))
		}
	})
}

func TestAFullPoolLeavesTheRestToARelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := make([]*event.Receiver, 4)
		for i := range many {
			many[i] = eager("k")
		}
		m := newMemory(many...)
		d := hasty(t, m, slow)
		d.offer(1, 32)
		d.offer(2, 32)
		synctest.Wait()
		if m.held() != 64 {
			t.Fatalf("%d under way", m.held())
		}
		if _, left := d.offer(3, 1000); len(left) > 1 {
			t.Errorf("%d of those that may wait were left", len(left))
		}
		synctest.Wait()
		last, left := d.offer(4, 2)
		if len(left) == 0 || d.Counts().Left.Load() == 0 {
			t.Fatalf("left %d, counted %d", len(left), d.Counts().Left.Load())
		}
		s := start(t, m, succeed, func(o *relay.Options) { o.Worker = 3 })
		s.Wake([]event.TargetID{4})
		time.Sleep(time.Second)
		synctest.Wait()
		if m.status(last[1]) != event.Succeeded {
			t.Errorf("the relay did not: %q", m.status(last[1]))
		}
	})
}

// A slow target takes as many slots as its bound, and those behind it are not held up.
func TestAnEagerTargetAtItsBoundIsLeftAndHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		narrow := eager("narrow")
		narrow.MaxConcurrency = 2
		m := newMemory(narrow, eager("k"))
		d := hasty(t, m, func(ctx context.Context, c *event.Claim) event.Verdict {
			if c.TargetID == 1 {
				return slow(ctx, c)
			}
			return succeed(ctx, c)
		})
		d.offer(1, 200)
		quick, _ := d.offer(2, 1)
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		if m.held() != 2 || len(d.left) != 198 || m.status(quick[0]) != event.Succeeded {
			t.Errorf("%d held, %d left, the other is %q", m.held(), len(d.left), m.status(quick[0]))
		}
	})
}

func TestWhatIsNotForNowIsNotTriedEagerly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later, task, limited := eager("later"), eager("task"), eager("limited")
		later.Due, task.Task, limited.RateLimit = time.Hour, true, event.Rate{Count: 1, Per: time.Hour}
		m := newMemory(later, task, limited, eager("paused"), eager("notyet"))
		m.targets[4].Paused = true
		d := hasty(t, m, succeed)
		for target := event.TargetID(1); target <= 4; target++ {
			if _, left := d.offer(target, 1); len(left) != 1 {
				t.Errorf("%s was taken", m.Target(target).Receiver.Key)
			}
		}
		id := m.owe(5, 1, 5)[0]
		m.rows[id].AvailableAt = time.Now().Add(time.Second)
		d.Offer([]ledger.Debt{{ID: id, TargetID: 5}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(m.trail) != 0 || d.Counts().Missed.Load() != 1 || d.Counts().Left.Load() != 0 {
			t.Errorf("%d attempts, %d missed, %d left", len(m.trail), d.Counts().Missed.Load(), d.Counts().Left.Load())
		}
	})
}

func TestAStopWaitsForEagerAttemptsUnderWayAndLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(eager("a"), eager("b"), eager("c"))
		d := hasty(t, m, slow)
		d.offer(1, 32)
		d.offer(2, 32)
		synctest.Wait()
		queued, _ := d.offer(3, 10)
		synctest.Wait()
		began := time.Now()
		d.stop()
		<-d.done
		if time.Since(began) != 9*time.Second || len(m.ended) != 64 || m.held() != 0 {
			t.Errorf("after %v %d had ended, %d are held", time.Since(began), len(m.ended), m.held())
		}
		for _, id := range queued {
			if r := m.at(id); r.Attempts != 0 {
				t.Error("one that was queued was tried")
			}
		}
		if _, left := d.offer(3, 1); len(left) != 1 {
			t.Error("taken on after the stop")
		}
	})
}

func TestADatabaseThatIsAwayLeavesWhatIsEagerToTheRelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(eager("k"))
		d := hasty(t, m, succeed)
		m.setDown(true)
		d.offer(1, 3)
		synctest.Wait()
		d.mu.Lock()
		left := slices.Clone(d.left)
		d.mu.Unlock()
		if len(left) != 3 || d.Counts().Left.Load() != 3 {
			t.Errorf("left %v", left)
		}
		m.setDown(false)
		ids, _ := d.offer(1, 1)
		synctest.Wait()
		if m.status(ids[0]) != event.Succeeded {
			t.Error("not tried after it was back")
		}
	})
}

// An uncounted deferral is recorded and pauses nothing.
func TestAnEagerDeferralPausesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := throttled("k", "default")
		r.Eager = true
		m := newMemory(r)
		d := hasty(t, m, func(context.Context, *event.Claim) event.Verdict { return deferral(time.Hour) })
		for range 3 {
			d.offer(1, 1)
			synctest.Wait()
		}
		if len(m.trail) != 3 {
			t.Errorf("%d attempts", len(m.trail))
		}
	})
}

func TestAwaitEndsWithTheFirstAttemptOfEachWhoeverMadeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(eager("k"), eager("paused"))
		d := hasty(t, m, slow)
		ids, _ := d.offer(1, 1)
		began := time.Now()
		d.Await(t.Context(), m.at(ids[0]).Event.ID, ids)
		if took := time.Since(began); took != 9*time.Second {
			t.Errorf("its own attempt: after %v", took)
		}
		theirs := m.owe(1, 1, 5)
		start(t, m, refuse, func(o *relay.Options) { o.Worker = 3 })
		began = time.Now()
		d.Await(t.Context(), m.at(theirs[0]).Event.ID, theirs)
		if took := time.Since(began); took > time.Second+250*time.Millisecond || m.at(theirs[0]).Attempts != 1 {
			t.Errorf("another's: after %v", took)
		}
		m.targets[2].Paused = true
		held := m.owe(2, 1, 5)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		m.steal(held[0])
		began = time.Now()
		d.Await(ctx, m.at(held[0]).Event.ID, held)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("none at all: after %v", took)
		}
	})
}
