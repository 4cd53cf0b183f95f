package relay_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// courier is a receiver's side of the story: a function of the claim.
type courier func(ctx context.Context, c *event.Claim) event.Verdict

func (f courier) Attempt(ctx context.Context, c *event.Claim) event.Verdict { return f(ctx, c) }

func (f courier) Check(*event.Claim) error { return nil }

func (f courier) Tell(context.Context, *event.Target, *event.Notice) error { return nil }

func succeed(context.Context, *event.Claim) event.Verdict {
	return event.Verdict{Ruling: event.Success}
}

func refuse(context.Context, *event.Claim) event.Verdict {
	return event.Verdict{Ruling: event.Failure, Class: event.ClassHTTP5xx, Reason: "answered 500", StartedAt: time.Now()}
}

func receiver(key string) *event.Receiver {
	return &event.Receiver{Key: key, Lane: "default", MaxConcurrency: 32, Timeout: 10 * time.Second, Lease: 30 * time.Second, MaxAttempts: 5,
		Terms: event.Terms{Curve: event.Curve{Base: 2 * time.Second, Cap: time.Hour}, CountDeferrals: true, MaxRetryAfter: 24 * time.Hour}}
}

// alike is so many receivers, and the targets that newMemory makes of them.
func alike(n int) (receivers []*event.Receiver, targets []event.TargetID) {
	for i := range n {
		receivers = append(receivers, receiver("k"))
		targets = append(targets, event.TargetID(i+1))
	}
	return receivers, targets
}

// station is a relay at work in a bubble of fake time.
type station struct {
	*relay.Relay
	log  *lines
	stop func()
	done chan struct{}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func options(m *memory, c courier, log *lines) relay.Options {
	return relay.Options{Worker: 1, Ledger: m, Book: m, Courier: c, Hook: around.Stack(), Log: slog.New(slog.NewTextHandler(log, nil))}
}

func start(t *testing.T, m *memory, c courier, change ...func(*relay.Options)) *station {
	s := &station{log: &lines{}, done: make(chan struct{})}
	o := options(m, c, s.log)
	for _, f := range change {
		f(&o)
	}
	s.Relay = relay.New(o)
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.Run(ctx); close(s.done) }()
	t.Cleanup(func() { cancel(); <-s.done })
	return s
}

func TestWhatIsOwedIsDeliveredWithoutAWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		start(t, m, succeed)
		synctest.Wait()
		ids := m.owe(1, 100, 5)
		time.Sleep(time.Second + 5*time.Millisecond) // the recorder's moment
		synctest.Wait()
		for _, id := range ids {
			if m.status(id) != event.Succeeded {
				t.Fatalf("not delivered within one poll: %q", m.status(id))
			}
		}
	})
}

func TestAWakeUpDeliversAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		s := start(t, m, succeed, func(o *relay.Options) { o.Poll = time.Hour })
		synctest.Wait()
		id := m.owe(1, 1, 5)[0]
		s.Wake([]event.TargetID{1})
		synctest.Wait()
		if m.status(id) != event.Succeeded {
			t.Error("not delivered by the wake-up alone")
		}
		id = m.owe(1, 1, 5)[0]
		s.Look()
		synctest.Wait()
		if m.status(id) != event.Succeeded {
			t.Error("not delivered by a look")
		}
	})
}

// P3: the curve, the budget, and one line of the failure log for each attempt.
func TestAFailingReceiverIsRetriedOnItsCurveUntilItsBudgetIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("shop.mail"))
		var at []time.Time
		s := start(t, m, func(ctx context.Context, c *event.Claim) event.Verdict {
			at = append(at, time.Now())
			if c.Attempt() != len(at) {
				t.Errorf("attempt %d is numbered %d", len(at), c.Attempt())
			}
			return refuse(ctx, c)
		})
		id := m.owe(1, 1, 4)[0]
		s.Look()
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.status(id) != event.Dead || len(at) != 4 {
			t.Fatalf("%q after %d attempts, want dead after 4", m.status(id), len(at))
		}
		for i, ceiling := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second} {
			if wait := at[i+1].Sub(at[i]); wait > ceiling {
				t.Errorf("wait %d was %v, above its ceiling %v", i+1, wait, ceiling)
			}
		}
		name := id.Text(event.DeliveryPrefix)
		if s.log.count("receiver shop.mail failed delivery "+name+" on attempt 2 with http_5xx; the row is failed") != 1 ||
			s.log.count("receiver shop.mail failed delivery "+name+" on attempt 4 with http_5xx; the row is dead") != 1 || s.log.count("failed delivery") != 4 {
			t.Errorf("the failure log is:\n%s", s.log.text.String())
		}
	})
}

// P4.
func TestASaturatedReceiverHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, quick := receiver("slow"), receiver("quick")
		slow.MaxConcurrency = 3
		m := newMemory(slow, quick)
		var atOnce, most atomic.Int32
		s := start(t, m, func(ctx context.Context, c *event.Claim) event.Verdict {
			if c.TargetID == 1 {
				most.Store(max(most.Load(), atOnce.Add(1)))
				time.Sleep(5 * time.Second)
				atOnce.Add(-1)
			}
			return succeed(ctx, c)
		}, func(o *relay.Options) { o.Slots = 8 })
		m.owe(1, 1000, 5)
		s.Look()
		synctest.Wait()
		for range 20 {
			began := time.Now()
			id := m.owe(2, 1, 5)[0]
			s.Wake([]event.TargetID{2})
			synctest.Wait()
			if m.status(id) != event.Succeeded || time.Since(began) > 0 {
				t.Fatalf("the healthy one waited %v behind the slow one", time.Since(began))
			}
		}
		time.Sleep(time.Minute)
		if most.Load() != 3 {
			t.Errorf("%d attempts at once at the slow one, want its bound of 3", most.Load())
		}
	})
}

// P5.
func TestAWorkerThatLostItsClaimRecordsAndReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		s := start(t, m, func(ctx context.Context, c *event.Claim) event.Verdict {
			m.steal(c.Delivery)
			return refuse(ctx, c)
		})
		id := m.owe(1, 1, 5)[0]
		s.Look()
		synctest.Wait()
		if len(m.trail) != 0 || m.status(id) != "" {
			t.Errorf("recorded %+v", m.trail)
		}
		if s.log.count("failed delivery") != 0 || s.log.count("receiver k finished an attempt after its claim was lost") != 1 {
			t.Errorf("the log is:\n%s", s.log.text.String())
		}
	})
}

func TestADatabaseThatGoesAwayIsAskedAgainAfter124815Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		id := m.owe(1, 1, 5)[0]
		m.setDown(true)
		began := time.Now()
		s := start(t, m, succeed)
		time.Sleep(50 * time.Second)
		synctest.Wait()
		// Turns at 0, 1, 3, 7, 15, 30 and 45 s.
		if n := s.log.count("cannot be claimed from"); n != 7 {
			t.Errorf("%d tries in 50 s, want 7:\n%s", n, s.log.text.String())
		}
		m.setDown(false)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if m.status(id) != event.Succeeded {
			t.Errorf("not delivered %v after the start, with the database back", time.Since(began))
		}
	})
}

func TestTheWaitForADatabaseEndsWhenItIsReachedAndNotForALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		id := m.owe(1, 1, 5)[0]
		m.setDown(true)
		s := start(t, m, succeed)
		time.Sleep(20 * time.Second) // the next try is at 30 s
		m.setDown(false)
		s.Look()
		synctest.Wait()
		if m.status(id) != "" {
			t.Error("a look cut the wait short")
		}
		s.Resume()
		synctest.Wait()
		if m.status(id) != event.Succeeded {
			t.Error("not delivered although the database was reached")
		}
	})
}

func TestADatabaseThatFallsSilentIsWaitedForOnlySoLong(t *testing.T) {
	for name, prompt := range map[string]func(s *station){
		"asked for the backlog": func(s *station) { s.Look() },
		"asked for a claim":     func(s *station) { s.Wake([]event.TargetID{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(receiver("k"))
				s := start(t, m, succeed)
				synctest.Wait()
				m.setSilent(true)
				id := m.owe(1, 1, 5)[0]
				prompt(s)
				time.Sleep(15 * time.Second)
				m.setSilent(false)
				time.Sleep(15 * time.Second)
				synctest.Wait()
				if m.status(id) != event.Succeeded {
					t.Errorf("%q", m.status(id))
				}
				m.setSilent(true)
				m.owe(1, 1, 5)
				prompt(s)
				synctest.Wait()
				began := time.Now()
				s.stop()
				<-s.done
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("stopped after %v", took)
				}
			})
		})
	}
}

// The request was made: its verdict is worth waiting for, as long as the lease lives.
func TestAVerdictOutlivesADatabaseThatIsAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		calls := 0
		s := start(t, m, func(ctx context.Context, c *event.Claim) event.Verdict {
			calls++
			m.setDown(true)
			return succeed(ctx, c)
		})
		id := m.owe(1, 1, 5)[0]
		s.Look()
		time.Sleep(20 * time.Second)
		m.setDown(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if m.status(id) != event.Succeeded || calls != 1 {
			t.Errorf("%q after %d calls, want succeeded after 1", m.status(id), calls)
		}
	})
}

// P9.
func TestStoppingWaitsForAttemptsUnderWayAndClaimsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		s := start(t, m, func(ctx context.Context, c *event.Claim) event.Verdict {
			time.Sleep(5 * time.Second)
			return succeed(ctx, c)
		}, func(o *relay.Options) { o.Slots = 3 })
		m.owe(1, 10, 5)
		s.Look()
		synctest.Wait()
		s.stop()
		<-s.done
		if len(m.ended) != 3 || m.held() != 0 {
			t.Errorf("%d ended, %d held; want the 3 under way ended and nothing held", len(m.ended), m.held())
		}
	})
}

func TestAStopCutsWhatOutlivesItsGraceAndRecordsNothingOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		s := start(t, m, func(ctx context.Context, _ *event.Claim) event.Verdict {
			<-ctx.Done()
			return event.Verdict{Ruling: event.Failure, Class: event.ClassTimeout}
		}, func(o *relay.Options) { o.Grace = 7 * time.Second })
		m.owe(1, 1, 5)
		s.Look()
		synctest.Wait()
		began := time.Now()
		s.stop()
		<-s.done
		if took := time.Since(began); took != 7*time.Second || len(m.trail) != 0 || m.held() != 1 {
			t.Errorf("stopped after %v with %d recorded and %d held; want 7s, 0 and 1", took, len(m.trail), m.held())
		}
		if s.log.count("failed delivery") != 0 {
			t.Error("a cut attempt was logged as failed")
		}
	})
}

func TestWhatAPanicLeavesIsAFailedAttemptAndTheRelayGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		s := start(t, m, func(ctx context.Context, c *event.Claim) event.Verdict {
			if c.Attempt() == 1 {
				panic("boom")
			}
			return succeed(ctx, c)
		})
		id := m.owe(1, 1, 5)[0]
		s.Look()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if m.status(id) != event.Succeeded || m.trail[0].Settlement.Class != event.ClassPanic {
			t.Errorf("%q, first attempt %+v", m.status(id), m.trail[0].Settlement)
		}
	})
}

func TestWhatADeletedReceiverIsOwedIsOrphanedWithoutARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		m.targets[1].Deleted = true
		s := start(t, m, func(context.Context, *event.Claim) event.Verdict {
			t.Error("a request was made")
			return event.Verdict{}
		})
		id := m.owe(1, 1, 5)[0]
		s.Look()
		synctest.Wait()
		if m.status(id) != event.Orphaned || s.log.count("failed delivery") != 0 {
			t.Errorf("%q; the log:\n%s", m.status(id), s.log.text.String())
		}
	})
}

func TestPausedReceiversGetNoRequestAndKeepTheirWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		m.targets[1].Paused = true
		start(t, m, succeed)
		id := m.owe(1, 1, 5)[0]
		time.Sleep(time.Minute)
		if m.status(id) != "" {
			t.Fatal("delivered while paused")
		}
		m.mu.Lock()
		open := *m.targets[1]
		open.Paused = false
		m.targets[1] = &open
		m.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		if m.status(id) != event.Succeeded {
			t.Error("not delivered after the pause")
		}
	})
}

func TestALongRetryAfterIsClampedWithAWarningThatNamesBothNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		s := start(t, m, func(context.Context, *event.Claim) event.Verdict {
			return event.Verdict{Ruling: event.RetryAfter, After: 48 * time.Hour, Class: event.ClassRetryAfter, Reason: "answered 429"}
		})
		m.owe(1, 1, 5)
		s.Look()
		synctest.Wait()
		if s.log.count("to wait 2d; it will wait 1d") != 1 || m.trail[0].Settlement.Wait != 24*time.Hour {
			t.Errorf("waits %v; the log:\n%s", m.trail[0].Settlement.Wait, s.log.text.String())
		}
	})
}
