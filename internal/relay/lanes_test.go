package relay_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/relay"
)

func inLane(key, lane string) *event.Receiver {
	r := receiver(key)
	r.Lane = lane
	return r
}

func serving(lanes ...string) func(*relay.Options) {
	return func(o *relay.Options) { o.Lanes.Served = lanes }
}

// T11, and what no named lane takes: the default lane's, and orphans of any.
func TestARelayServesItsLanesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		lanes                   []string
		mail, plain, gone, late event.Status
	}{
		"mail":    {[]string{"mail"}, event.Succeeded, "", "", event.Succeeded},
		"default": {[]string{"default"}, "", event.Succeeded, event.Orphaned, ""},
		"both":    {[]string{"mail", "default"}, event.Succeeded, event.Succeeded, event.Orphaned, event.Succeeded},
		"every":   {nil, event.Succeeded, event.Succeeded, event.Orphaned, event.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(inLane("mailer", "mail"), inLane("plain", "default"), inLane("gone", "mail"))
				m.targets[3].Deleted = true
				mail, plain, gone, late := m.owe(1, 1, 5)[0], m.owe(2, 1, 5)[0], m.owe(3, 1, 5)[0], m.owe(1, 1, 5)[0]
				m.rows[late].by, m.rows[late].lease = 77, time.Now().Add(time.Second) // a lost worker's
				start(t, m, succeed, serving(c.lanes...))
				time.Sleep(5 * time.Second)
				synctest.Wait()
				for id, want := range map[event.ID]event.Status{mail: c.mail, plain: c.plain, gone: c.gone, late: c.late} {
					if got := m.status(id); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
			})
		})
	}
}

func TestMovingAReceiverMovesWhatItIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(inLane("mailer", "mail"))
		id := m.owe(1, 1, 5)[0]
		start(t, m, succeed, serving("default"))
		time.Sleep(5 * time.Second)
		if m.status(id) != "" {
			t.Fatal("delivered by a relay of another lane")
		}
		m.mu.Lock()
		m.targets[1] = &event.Target{ID: 1, Receiver: inLane("mailer", "default")}
		m.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if m.status(id) != event.Succeeded {
			t.Error("it was moved here, and waits")
		}
	})
}

// A receiver that moves away between the draw and the claim is the other lane's.
func TestAClaimOfAReceiverThatHasMovedAwayIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(inLane("mailer", "mail"))
		id := m.owe(1, 1, 5)[0]
		m.pause = time.Second
		start(t, m, succeed, serving("mail"))
		time.Sleep(time.Second / 2)
		m.mu.Lock()
		m.targets[1] = &event.Target{ID: 1, Receiver: inLane("mailer", "default")}
		m.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if m.status(id) != "" || m.held() != 0 || len(m.trail) != 0 {
			t.Errorf("status %q, %d held, %d attempts", m.status(id), m.held(), len(m.trail))
		}
	})
}

func TestALaneHasNoMoreInFlightThanItsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(inLane("a", "mail"), inLane("b", "mail"), inLane("c", "bulk"))
		m.owe(1, 100, 5)
		m.owe(2, 100, 5)
		m.owe(3, 100, 5)
		var mu sync.Mutex
		now, most := map[string]int{}, map[string]int{}
		start(t, m, func(_ context.Context, c *event.Claim) event.Verdict {
			lane := c.To.Receiver.Lane
			mu.Lock()
			now[lane]++
			most[lane] = max(most[lane], now[lane])
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now[lane]--
			mu.Unlock()
			return event.Verdict{Ruling: event.Success}
		}, func(o *relay.Options) { o.Lanes.Workers = map[string]int{"mail": 3} })
		time.Sleep(10 * time.Second)
		mu.Lock()
		if most["mail"] != 3 || most["bulk"] != 32 {
			t.Errorf("at most %v in flight", most)
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(m.ended) != 300 {
			t.Errorf("%d of 300 were delivered", len(m.ended))
		}
	})
}

func TestOnceEndsWhenNothingThatIsDueIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver("k")
		r.Curve = event.Curve{Base: time.Hour, Cap: time.Hour}
		m := newMemory(r, receiver("empty"))
		ids := m.owe(1, 1000, 5)
		later := m.owe(1, 1, 5)[0]
		m.rows[later].AvailableAt = time.Now().Add(time.Hour)
		failing := ids[7]
		s := start(t, m, func(ctx context.Context, c *event.Claim) event.Verdict {
			time.Sleep(time.Second)
			if c.Delivery == failing {
				return refuse(ctx, c)
			}
			return event.Verdict{Ruling: event.Success}
		}, func(o *relay.Options) { o.Once = true })
		<-s.done
		if len(m.ended) != 999 || m.rows[failing].Attempts != 1 || !s.Finished() {
			t.Errorf("%d ended, the failing one was tried %d times", len(m.ended), m.rows[failing].Attempts)
		}
	})
}

func TestOnceWithNothingToDoEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := start(t, newMemory(receiver("k")), succeed, func(o *relay.Options) { o.Once = true })
		<-s.done
		if time.Since(began) > 0 {
			t.Errorf("took %v", time.Since(began))
		}
	})
}

func TestALimitedRelayClaimsSoManyAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("a"), receiver("b"))
		m.owe(1, 100, 5)
		m.owe(2, 100, 5)
		s := start(t, m, succeed, func(o *relay.Options) { o.Limit = 45 })
		<-s.done
		if len(m.ended) != 45 || m.held() != 0 {
			t.Errorf("%d were delivered, %d are held", len(m.ended), m.held())
		}
	})
}

// A target that waits for a paused lane goes with its receiver to another.
func TestATargetThatMovesOutOfAPausedLaneIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(throttled("mailer", "mail"), throttled("cards", "mail"))
		m.owe(1, 1, 5)
		start(t, m, func(_ context.Context, c *event.Claim) event.Verdict {
			if c.TargetID == 1 {
				return deferral(20 * time.Hour)
			}
			return event.Verdict{Ruling: event.Success}
		})
		time.Sleep(2 * time.Second)
		id := m.owe(2, 1, 5)[0]
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if m.status(id) != "" {
			t.Fatal("delivered in a paused lane")
		}
		m.mu.Lock()
		m.targets[2] = &event.Target{ID: 2, Receiver: throttled("cards", "default")}
		m.mu.Unlock()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if m.status(id) != event.Succeeded {
			t.Error("it waits for a lane that it is no longer in")
		}
	})
}

// P4: however many hang, with whatever concurrency, one that is well gets its turn.
func TestHangingReceiversLeaveSlotsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		greedy := receiver("greedy")
		greedy.MaxConcurrency, greedy.Timeout, greedy.Lease = 1000, 5*time.Minute, 6*time.Minute
		receivers := []*event.Receiver{greedy}
		for range 12 {
			receivers = append(receivers, receiver("hangs"))
		}
		receivers = append(receivers, receiver("well"))
		m := newMemory(receivers...)
		for i := range 13 {
			m.owe(event.TargetID(i+1), 300, 5)
		}
		start(t, m, func(_ context.Context, c *event.Claim) event.Verdict {
			if c.To.Receiver.Key != "well" {
				time.Sleep(c.To.Receiver.Timeout)
				return event.Verdict{Ruling: event.Failure, Class: event.ClassTimeout}
			}
			return event.Verdict{Ruling: event.Success}
		})
		time.Sleep(5 * time.Second)
		id := m.owe(14, 1, 5)[0]
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if m.status(id) != event.Succeeded {
			t.Error("it waits for others that hang")
		}
	})
}

// What is left of a receiver that was paused and is gone is orphaned.
func TestAPausedTargetThatIsGoneIsOrphaned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		m.targets[1].Paused, m.targets[1].Deleted = true, true
		id := m.owe(1, 1, 5)[0]
		start(t, m, succeed)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if m.status(id) != event.Orphaned {
			t.Errorf("status %q", m.status(id))
		}
	})
}
