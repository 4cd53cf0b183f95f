package relay_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// throttled is a receiver whose deferrals spend no attempt.
func throttled(key, lane string) *event.Receiver {
	r := receiver(key)
	r.Lane, r.CountDeferrals, r.GiveUpAfter = lane, false, 48*time.Hour
	return r
}

func deferral(asked time.Duration) event.Verdict {
	return event.Verdict{Ruling: event.RetryAfter, After: asked, Uncounted: true, Class: event.ClassRetryAfter, Reason: "answered 429", StartedAt: time.Now()}
}

// calls counts attempts, and how many are in flight at most.
type calls struct{ all, now, most atomic.Int64 }

func (c *calls) during(work time.Duration) {
	c.all.Add(1)
	if n := c.now.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	time.Sleep(work)
	c.now.Add(-1)
}

// T24: twenty thousand deliveries into a quota that is gone cost one call, and one more
// for each pause, and lose no attempt by it (T25).
func TestABurstIntoAThrottleCostsOneCallAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, seen := newMemory(throttled("mailer", "default")), &calls{}
		ids := m.owe(1, 20_000, 1)
		start(t, m, func(context.Context, *event.Claim) event.Verdict {
			seen.during(10 * time.Millisecond)
			return deferral(time.Minute)
		})
		for pauses := range int64(5) {
			time.Sleep(59 * time.Second)
			synctest.Wait()
			if got := seen.all.Load(); got != pauses+1 {
				t.Fatalf("%d calls in %d pauses", got, pauses+1)
			}
			time.Sleep(time.Second + 10*time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := m.held(); n != 0 {
			t.Errorf("%d deliveries are still claimed", n)
		}
		for _, id := range ids {
			if m.status(id) != "" || m.rows[id].Attempts != 0 {
				t.Fatalf("a delivery spent an attempt, or ended: %+v", m.rows[id])
			}
		}
	})
}

// A destination that changes its mind under a burst is called by what was in flight, and
// not again: what was claimed meanwhile goes back in its place.
func TestADeferralUnderABurstStartsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, seen := newMemory(throttled("mailer", "default")), &calls{}
		m.owe(1, 2000, 5)
		var gone atomic.Bool
		start(t, m, func(context.Context, *event.Claim) event.Verdict {
			late := gone.Load()
			seen.during(10 * time.Millisecond)
			if late {
				return deferral(time.Minute)
			}
			return event.Verdict{Ruling: event.Success}
		})
		time.Sleep(105 * time.Millisecond)
		gone.Store(true)
		before := seen.all.Load()
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if more := seen.all.Load() - before; more > 2*32 {
			t.Errorf("%d calls after the quota was gone; 32 may be in flight", more)
		}
		if n := m.held(); n != 0 {
			t.Errorf("%d deliveries are still claimed", n)
		}
	})
}

// T33: the other lanes of a batch, and of later claims, go on.
func TestADeferralPausesItsLaneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(throttled("mailer", "mail"), throttled("postcards", "mail"), receiver("other"))
		m.owe(1, 10, 5)
		cards := m.owe(2, 10, 5)
		others := m.owe(3, 100, 5)
		var mails atomic.Int64
		s := start(t, m, func(_ context.Context, c *event.Claim) event.Verdict {
			if c.To.Receiver.Lane == "mail" {
				mails.Add(1)
				time.Sleep(time.Millisecond)
				return deferral(time.Minute)
			}
			return event.Verdict{Ruling: event.Success}
		})
		time.Sleep(10 * time.Second)
		more := m.owe(3, 10, 5)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, id := range append(others, more...) {
			if m.status(id) != event.Succeeded {
				t.Fatal("a delivery of another lane waits")
			}
		}
		if mails.Load() > 2 {
			t.Errorf("%d calls into a lane that is paused", mails.Load())
		}
		if m.status(cards[0]) != "" || len(s.Pauses()) != 1 || s.Pauses()[0].Lane != "mail" {
			t.Errorf("paused: %+v", s.Pauses())
		}
		if s.log.count("pauses for 1m") != 1 {
			t.Errorf("the pause is told %d times", s.log.count("pauses for 1m"))
		}
	})
}

func TestAPauseOfATargetLeavesItsLaneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := throttled("slow", "default")
		slow.PauseScope = event.PauseTarget
		m := newMemory(slow, throttled("fast", "default"))
		m.owe(1, 10, 5)
		var calls atomic.Int64
		start(t, m, func(_ context.Context, c *event.Claim) event.Verdict {
			if c.TargetID == 1 {
				calls.Add(1)
				return deferral(time.Minute)
			}
			return event.Verdict{Ruling: event.Success}
		})
		time.Sleep(2 * time.Second)
		fast := m.owe(2, 50, 5)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, id := range fast {
			if m.status(id) != event.Succeeded {
				t.Fatal("the other target waits")
			}
		}
		if calls.Load() != 1 {
			t.Errorf("%d calls into the target that is paused", calls.Load())
		}
	})
}

// On resume one probe is in flight until something other than a deferral comes back,
// whatever that is; then the full width returns.
func TestAfterAPauseOneProbeFliesUntilTheMoodIsKnown(t *testing.T) {
	for name, answer := range map[string]event.Verdict{
		"success": {Ruling: event.Success},
		"failure": {Ruling: event.Failure, Class: event.ClassHTTP5xx, Reason: "answered 500"},
		"counted": {Ruling: event.RetryAfter, After: time.Hour, Class: event.ClassRetryAfter, Reason: "answered 503"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, seen := newMemory(throttled("mailer", "default")), &calls{}
				m.owe(1, 500, 5)
				var better atomic.Bool
				start(t, m, func(context.Context, *event.Claim) event.Verdict {
					good := better.Load()
					seen.during(time.Second)
					if good {
						return answer
					}
					return deferral(time.Minute)
				})
				time.Sleep(3*time.Minute + 30*time.Second)
				if seen.most.Load() != 1 {
					t.Fatalf("%d in flight while the destination defers", seen.most.Load())
				}
				better.Store(true)
				synctest.Wait()
				time.Sleep(time.Minute)
				if seen.most.Load() != 32 {
					t.Errorf("%d in flight after the probe came back", seen.most.Load())
				}
			})
		})
	}
}

// While a lane is paused, what comes back of attempts that began before it does not end
// the pause; another deferral makes it longer, never shorter.
func TestAPauseEndsAtTheLatestMomentThatWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, seen := newMemory(throttled("mailer", "default")), &calls{}
		first := m.owe(1, 1, 5)
		answers := make(chan event.Verdict, 3)
		start(t, m, func(context.Context, *event.Claim) event.Verdict {
			seen.all.Add(1)
			return <-answers
		})
		synctest.Wait()
		answers <- event.Verdict{Ruling: event.Success}
		synctest.Wait()
		if m.status(first[0]) != event.Succeeded {
			t.Fatal("not delivered")
		}
		m.owe(1, 10, 5)
		time.Sleep(time.Second)
		synctest.Wait()
		answers <- deferral(2 * time.Minute)
		synctest.Wait()
		answers <- deferral(time.Minute)
		answers <- event.Verdict{Ruling: event.Success}
		synctest.Wait()
		close(answers)
		before := seen.all.Load()
		m.owe(1, 10, 5)
		time.Sleep(119 * time.Second)
		synctest.Wait()
		if seen.all.Load() != before {
			t.Errorf("%d calls during the pause", seen.all.Load()-before)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if seen.all.Load() == before {
			t.Error("no call after the pause")
		}
	})
}

// T31.
func TestADeferralThatCouldNotBeRecordedPausesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(throttled("mailer", "default"))
		ids := m.owe(1, 2, 5)
		stolen := false
		s := start(t, m, func(_ context.Context, c *event.Claim) event.Verdict {
			if !stolen {
				stolen = true
				m.steal(ids[0])
				return deferral(time.Hour)
			}
			return event.Verdict{Ruling: event.Success}
		}, func(o *relay.Options) { o.Slots = 1 })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(s.Pauses()) != 0 || m.status(ids[1]) != event.Succeeded {
			t.Errorf("paused: %+v", s.Pauses())
		}
	})
}

// T34.
func TestClaimsThatCannotBeHandedBackAreLeftToTheirLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, answers := newMemory(throttled("a", "default"), throttled("b", "default")), make(chan event.Verdict)
		var calls atomic.Int64
		s := start(t, m, func(_ context.Context, c *event.Claim) event.Verdict {
			if c.TargetID == 2 {
				calls.Add(1)
				return event.Verdict{Ruling: event.Success}
			}
			return <-answers
		})
		m.owe(2, 1, 5) // its mood is known
		m.owe(1, 1, 5) // under way, until it is answered
		time.Sleep(2 * time.Second)
		m.mu.Lock()
		m.stuck, m.pause = true, 100*time.Millisecond
		m.mu.Unlock()
		m.owe(2, 3, 5)
		s.Wake([]event.TargetID{2})
		synctest.Wait() // claimed, and not told yet
		answers <- deferral(time.Hour)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if s.log.count("could not be handed back") != 1 || m.held() != 3 || calls.Load() != 1 {
			t.Errorf("%d are held, %d calls; the log:\n%s", m.held(), calls.Load(), s.log.text.String())
		}
	})
}

func TestForgivingEndsEveryPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(throttled("mailer", "default"))
		m.owe(1, 2, 5)
		var calls atomic.Int64
		s := start(t, m, func(context.Context, *event.Claim) event.Verdict {
			calls.Add(1)
			return deferral(time.Hour)
		})
		time.Sleep(2 * time.Second)
		s.Hurry()()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if calls.Load() != 2 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}
