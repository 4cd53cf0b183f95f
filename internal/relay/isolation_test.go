package relay_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// P4: one that is known to be well never waits, however many slow ones there are, all of
// whose attempts begin and end together.
func TestFortySlowTargetsLeaveSlotsToOneThatIsQuick(t *testing.T) {
	for _, many := range []int{1, 8, 40, 300} {
		synctest.Test(t, func(t *testing.T) {
			receivers := []*event.Receiver{receiver("well")}
			for range many {
				receivers = append(receivers, receiver("slow"))
			}
			m := newMemory(receivers...)
			s := start(t, m, func(_ context.Context, c *event.Claim) event.Verdict {
				if c.To.Receiver.Key == "slow" {
					time.Sleep(4 * time.Second)
				} else {
					time.Sleep(5 * time.Millisecond)
				}
				return event.Verdict{Ruling: event.Success}
			})
			deliver := func() time.Duration {
				id := m.owe(1, 1, 5)[0]
				s.Wake([]event.TargetID{1})
				began := time.Now()
				for m.status(id) != event.Succeeded {
					time.Sleep(time.Millisecond)
				}
				return time.Since(began)
			}
			deliver()
			var all []event.TargetID
			for i := range many {
				m.owe(event.TargetID(i+2), 100+400/many, 5)
				all = append(all, event.TargetID(i+2))
			}
			s.Wake(all)
			time.Sleep(time.Millisecond)
			for range 300 {
				if took := deliver(); took > 10*time.Millisecond {
					t.Fatalf("beside %d slow targets one that is well waits %v", many, took)
				}
				time.Sleep(35 * time.Millisecond)
			}
			// And the slow ones have what is left: of 256 slots an eighth is kept. One that has
			// just ended may have no successor yet.
			most := 0
			for range 10 {
				synctest.Wait()
				most = max(most, m.held())
				time.Sleep(10 * time.Millisecond)
			}
			if most < min(32*many, 256-32) {
				t.Errorf("%d of the slow ones' are under way", most)
			}
		})
	}
}

// A question to the ledger that takes its time, or has no answer, holds no claim up.
func TestABacklogThatIsReadSlowlyHoldsNoClaimUp(t *testing.T) {
	for name, asking := range map[string]time.Duration{"slowly": 5 * time.Second, "never": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(receiver("k"))
				m.asking = asking
				s := start(t, m, succeed)
				for range 100 {
					id := m.owe(1, 1, 5)[0]
					s.Wake([]event.TargetID{1})
					synctest.Wait()
					if m.status(id) != event.Succeeded {
						t.Fatal("it waits for the backlog to be read")
					}
					time.Sleep(310 * time.Millisecond)
				}
			})
		})
	}
}

// A lapsed lease, a row whose transaction was open for long: both became available before
// what was claimed since.
func TestWhatBecomesVisibleLateIsFoundBesideABusyTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		m.pause = 9 * time.Millisecond // so that a claim is under way at almost any time
		s := start(t, m, func(context.Context, *event.Claim) event.Verdict {
			time.Sleep(7 * time.Millisecond)
			return event.Verdict{Ruling: event.Success}
		})
		time.Sleep(time.Minute)
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					m.owe(1, 3, 5)
					s.Wake([]event.TargetID{1})
				}
			}
		}()
		defer close(stop)
		time.Sleep(5 * time.Second)
		late := m.owe(1, 40, 5)
		m.mu.Lock()
		for _, id := range late {
			m.rows[id].AvailableAt = time.Now().Add(-30 * time.Second)
		}
		m.mu.Unlock()
		time.Sleep(1500 * time.Millisecond)
		for _, id := range late {
			if m.status(id) != event.Succeeded {
				t.Fatal("what became visible late is not found")
			}
		}
	})
}

// Claims have a floor from their second on: what is gone is not walked over again.
func TestClaimsOfABacklogKeepAboveWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		m.owe(1, 5000, 5)
		start(t, m, func(context.Context, *event.Claim) event.Verdict {
			time.Sleep(100 * time.Millisecond)
			return event.Verdict{Ruling: event.Failure, Class: event.ClassHTTP5xx, Reason: "answered 500"}
		}, func(o *relay.Options) { o.Poll = time.Second })
		time.Sleep(10 * time.Second)
		m.mu.Lock()
		defer m.mu.Unlock()
		unbounded := 0
		for _, q := range m.quotas {
			if q.Floor == (ledger.Place{}) {
				unbounded++
			}
		}
		if unbounded > 1 || len(m.quotas) < 50 {
			t.Errorf("%d of %d claims had no floor", unbounded, len(m.quotas))
		}
	})
}

// What a bulk or a replay owes becomes available at one moment: a floor is a row of it.
func TestClaimsOfWhatWasOwedAtOneMomentKeepAboveWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		m.owe(1, 5000, 5)
		time.Sleep(time.Minute)
		start(t, m, func(context.Context, *event.Claim) event.Verdict {
			time.Sleep(100 * time.Millisecond)
			return event.Verdict{Ruling: event.Success}
		}, func(o *relay.Options) { o.Poll = time.Second })
		time.Sleep(10 * time.Second)
		m.mu.Lock()
		defer m.mu.Unlock()
		higher := 0
		for i, q := range m.quotas[1:] {
			if q.Floor.Compare(m.quotas[i].Floor) > 0 {
				higher++
			}
		}
		if higher < len(m.quotas)*9/10 || len(m.quotas) < 50 {
			t.Errorf("of %d claims %d had a higher floor than the one before", len(m.quotas), higher)
		}
	})
}

// What is found below the floor while a claim is under way outlives that claim's own news.
func TestWhatIsFoundDuringAClaimIsClaimedNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		m.pause = time.Second
		s := start(t, m, succeed, func(o *relay.Options) { o.Poll = time.Hour })
		time.Sleep(time.Minute)
		m.owe(1, 1, 5)
		s.Wake([]event.TargetID{1})
		time.Sleep(2 * time.Second)
		m.mu.Lock()
		m.asking = 500 * time.Millisecond
		m.mu.Unlock()
		m.owe(1, 1, 5)
		s.Look()
		synctest.Wait()
		s.Wake([]event.TargetID{1})
		time.Sleep(100 * time.Millisecond) // a claim is under way, and ends after the answer
		late := m.owe(1, 1, 5)[0]
		m.mu.Lock()
		m.rows[late].AvailableAt = time.Now().Add(-30 * time.Second)
		m.mu.Unlock()
		time.Sleep(5 * time.Second)
		if m.status(late) != event.Succeeded {
			t.Error("it is forgotten")
		}
	})
}

// P4: whoever was never heard of, as all are after a start, gets a first turn beside quick
// ones that have a backlog and pass their seats on to what they claimed ahead.
func TestQuickTargetsWithABacklogLeaveATurnToOneThatIsNew(t *testing.T) {
	for _, many := range []int{8, 40} {
		for _, work := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				const fresh = 20
				var receivers []*event.Receiver
				for range fresh {
					receivers = append(receivers, receiver("new"))
				}
				for range many {
					receivers = append(receivers, receiver("busy"))
				}
				m := newMemory(receivers...)
				m.pause = 2 * time.Millisecond
				s := start(t, m, func(_ context.Context, c *event.Claim) event.Verdict {
					if c.To.Receiver.Key == "busy" {
						time.Sleep(work + time.Duration(c.Delivery[15])*work/512)
					} else {
						time.Sleep(5 * time.Millisecond)
					}
					return event.Verdict{Ruling: event.Success}
				})
				var all []event.TargetID
				for i := range many {
					m.owe(event.TargetID(fresh+i+1), 12_000/many, 5)
					all = append(all, event.TargetID(fresh+i+1))
				}
				s.Wake(all)
				time.Sleep(3 * work)
				worst := time.Duration(0)
				for i := range fresh {
					for range 3 {
						id := m.owe(event.TargetID(i+1), 1, 5)[0]
						s.Wake([]event.TargetID{event.TargetID(i + 1)})
						began := time.Now()
						for m.status(id) != event.Succeeded {
							time.Sleep(time.Millisecond)
						}
						worst = max(worst, time.Since(began))
					}
				}
				// Two claims, its own attempt and its record; and the next of the busy ones to end.
				if want := 20*time.Millisecond + work/4; worst > want {
					t.Errorf("beside %d that take %v each, one that is new waits %v", many, work, worst)
				}
			})
		}
	}
}

// P4: a seat is passed on to what was claimed ahead for it only as long as nobody waits.
func TestSeatsThatOthersWaitForAreNotPassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*relay.Options)
		bound  int
	}{
		"a lane of one":                       {func(o *relay.Options) { o.Lanes.Workers = map[string]int{"default": 1} }, 1},
		"a lane of three":                     {func(o *relay.Options) { o.Lanes.Workers = map[string]int{"default": 3} }, 3},
		"one slot":                            {func(o *relay.Options) { o.Slots = 1 }, 1},
		"but a few slots":                     {func(o *relay.Options) { o.Slots = 8 }, 8},
		"few slots, of which one is reserved": {func(o *relay.Options) { o.Slots = 16 }, 15},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, seen := newMemory(receiver("busy"), receiver("a"), receiver("b")), count(t, 5*time.Millisecond)
				s := start(t, m, seen.attempt, c.change)
				m.owe(1, 3000, 5)
				s.Wake([]event.TargetID{1})
				time.Sleep(100 * time.Millisecond)
				for i := range 60 {
					if i == 30 {
						time.Sleep(1500 * time.Millisecond) // what nobody waited for lately is claimed ahead again
					}
					to := event.TargetID(2 + i%2)
					id := m.owe(to, 1, 5)[0]
					s.Wake([]event.TargetID{to})
					began := time.Now()
					for m.status(id) != event.Succeeded {
						time.Sleep(time.Millisecond)
					}
					// The attempt that has the seat, what comes of a claim before, and its own.
					if took := time.Since(began); took > 20*time.Millisecond {
						t.Fatalf("number %d waits %v", i+1, took)
					}
					if n := seen.kept(m, 1); n > 0 && seen.under(1) == 0 {
						t.Fatalf("%d are kept of one that has no seat", n)
					}
					time.Sleep(3 * time.Millisecond)
				}
				if seen.peak(1) != c.bound {
					t.Errorf("%d of the busy one at once, want %d", seen.peak(1), c.bound)
				}
			})
		})
	}
}
