package relay_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// limited is a receiver with a rate limit.
func limited(t *testing.T, key, rate string) *event.Receiver {
	t.Helper()
	r := receiver(key)
	limit, err := event.ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	r.RateLimit, r.MaxConcurrency = limit, 1000
	return r
}

// starts are the moments at which attempts began.
type starts struct {
	mu sync.Mutex
	at []time.Time
}

func (s *starts) attempt(context.Context, *event.Claim) event.Verdict {
	s.mu.Lock()
	s.at = append(s.at, time.Now())
	s.mu.Unlock()
	return event.Verdict{Ruling: event.Success}
}

func (s *starts) all() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at)
}

// most is how many began in any span of that length.
func most(at []time.Time, span time.Duration) (n int) {
	from := 0
	for i := range at {
		for at[i].Sub(at[from]) >= span {
			from++
		}
		n = max(n, i-from+1)
	}
	return n
}

func TestNoSpanHoldsMoreThanItsRateAndABacklogFillsIt(t *testing.T) {
	for rate, c := range map[string]struct {
		claim time.Duration // how long one takes
		spans int
	}{
		"1/s": {3 * time.Millisecond, 20}, "10/s": {5 * time.Millisecond, 10}, "7/2s": {20 * time.Millisecond, 10}, "300/m": {3 * time.Millisecond, 2},
		"100/s": {8 * time.Millisecond, 10}, "333/s": {4 * time.Millisecond, 5}, "2000/s": {2 * time.Millisecond, 3}, "5/10s": {24 * time.Millisecond, 5},
	} {
		t.Run(rate, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := limited(t, "k", rate)
				m, seen := newMemory(r), &starts{}
				m.pause = c.claim
				m.owe(1, c.spans*r.RateLimit.Count+10, 5)
				start(t, m, seen.attempt)
				time.Sleep(time.Duration(c.spans) * r.RateLimit.Per)
				synctest.Wait()
				at := seen.all()
				if n := most(at, r.RateLimit.Per); n > r.RateLimit.Count {
					t.Errorf("%d began within %v, and %d may", n, r.RateLimit.Per, r.RateLimit.Count)
				}
				if want := float64(c.spans*r.RateLimit.Count) * 0.95; float64(len(at)) < min(want, float64(c.spans*r.RateLimit.Count-1)) {
					t.Errorf("%d began in %d spans of %d", len(at), c.spans, r.RateLimit.Count)
				}
			})
		})
	}
}

// Events that come as they like, now and then and in bursts, keep to the rate as well.
func TestNoSpanHoldsMoreThanItsRateHoweverEventsCome(t *testing.T) {
	for _, rate := range []string{"3/s", "40/s", "500/s"} {
		t.Run(rate, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := limited(t, "k", rate)
				m, seen := newMemory(r), &starts{}
				s := start(t, m, seen.attempt)
				for i := range 400 {
					m.owe(1, 1+i%3*i/8, 5)
					s.Wake([]event.TargetID{1})
					time.Sleep(time.Duration(i*i%97) * time.Millisecond)
				}
				time.Sleep(5 * time.Second)
				if n := most(seen.all(), time.Second); n != r.RateLimit.Count {
					t.Errorf("%d began within a second, of a rate of %s", n, rate)
				}
			})
		})
	}
}

func TestARateIsSpreadEvenlyOverItsSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, seen := newMemory(limited(t, "k", "60/m")), &starts{}
		m.owe(1, 100, 5)
		start(t, m, seen.attempt)
		time.Sleep(30500 * time.Millisecond)
		at := seen.all()
		if len(at) != 31 {
			t.Errorf("%d began within half a minute and one interval, want 31", len(at))
		}
		for i := range at[1:] {
			if gap := at[i+1].Sub(at[i]); gap < time.Second {
				t.Errorf("%v between two", gap)
			}
		}
	})
}

// The first event after a quiet time is not kept waiting.
func TestARateDelaysNothingThatItAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(limited(t, "k", "1/10s"))
		s := start(t, m, succeed)
		for range 3 {
			time.Sleep(10 * time.Second)
			id := m.owe(1, 1, 5)[0]
			s.Wake([]event.TargetID{1})
			synctest.Wait()
			if m.status(id) != event.Succeeded {
				t.Fatal("it waits although nothing was sent for a whole span")
			}
		}
	})
}

// P4: what waits for its rate holds no claim and no slot, costs no claims, and keeps
// nobody waiting, however many targets do.
func TestTargetsAtTheirRateHoldNothingAndNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 700
		receivers := []*event.Receiver{receiver("well")}
		for range many {
			receivers = append(receivers, limited(t, "limited", "1/h"))
		}
		m := newMemory(receivers...)
		for i := range many {
			m.owe(event.TargetID(i+2), 10, 5)
		}
		s := start(t, m, succeed, func(o *relay.Options) { o.Slots = 16 })
		time.Sleep(10*time.Second + 500*time.Millisecond)
		synctest.Wait()
		if len(m.ended) != many || m.held() != 0 {
			t.Fatalf("%d began, %d are held; want one of each and none", len(m.ended), m.held())
		}
		before := len(m.claims)
		for range 50 {
			all := []event.TargetID{}
			for i := range many {
				all = append(all, event.TargetID(i+2))
			}
			id := m.owe(1, 1, 5)[0]
			s.Wake(append(all, 1))
			synctest.Wait()
			if m.status(id) != event.Succeeded {
				t.Fatal("the one that is well waits for those at their rate")
			}
		}
		if n := len(m.claims) - before; n > 100 {
			t.Errorf("%d claims for 50 deliveries", n)
		}
	})
}

func TestAnotherRateIsKeptToAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, seen := newMemory(limited(t, "k", "1/24h")), &starts{}
		m.owe(1, 100, 5)
		start(t, m, seen.attempt)
		time.Sleep(time.Minute)
		declare := func(rate event.Rate) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.targets[1] = &event.Target{ID: 1, Receiver: m.targets[1].Receiver, RateLimit: rate}
		}
		declare(event.Rate{Count: 10, Per: time.Second})
		time.Sleep(3 * time.Second)
		if n := len(seen.all()); n < 15 || n > 1+31 {
			t.Errorf("%d began in 3 s at 10/s, after a day's wait was cut short", n)
		}
		declare(event.Rate{})
		time.Sleep(2 * time.Second)
		if n := len(seen.all()); n != 100 {
			t.Errorf("%d of 100 began without a rate", n)
		}
	})
}

func TestOnceStaysUntilARateHasLetEverythingThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(limited(t, "k", "1/m"))
		m.owe(1, 5, 5)
		began := time.Now()
		s := start(t, m, succeed, func(o *relay.Options) { o.Once = true })
		<-s.done
		if took := time.Since(began); len(m.ended) != 5 || took > 5*time.Minute+time.Second {
			t.Errorf("%d of 5 ended, in %v", len(m.ended), took)
		}
	})
}

func TestADeliveryThatIsWishedForNowDoesNotWaitForItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(limited(t, "k", "1/h"))
		ids := m.owe(1, 3, 5)
		s := start(t, m, succeed)
		time.Sleep(time.Second)
		for _, id := range ids {
			if m.status(id) == event.Succeeded {
				continue
			}
			if made, err := s.Deliver(t.Context(), id); !made || err != nil || m.status(id) != event.Succeeded {
				t.Errorf("%v %v %q", made, err, m.status(id))
			}
		}
	})
}

func TestATestsHurryLiftsRatesUntilItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, seen := newMemory(limited(t, "k", "1/h")), &starts{}
		m.owe(1, 100, 5)
		s := start(t, m, seen.attempt)
		time.Sleep(time.Second)
		done := s.Hurry()
		synctest.Wait()
		if n := len(seen.all()); n != 100 {
			t.Errorf("%d of 100 began in a hurry", n)
		}
		done()
		m.owe(1, 10, 5)
		time.Sleep(2 * time.Second)
		if n := len(seen.all()); n != 100 {
			t.Errorf("%d began after it", n-100)
		}
	})
}

// What is left of a target that is gone is orphaned, which asks nobody for anything.
func TestARateDoesNotKeepOrphansWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(limited(t, "k", "1/h"))
		m.targets[1].Deleted = true
		m.owe(1, 100, 5)
		start(t, m, succeed)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(m.ended) != 100 {
			t.Errorf("%d of 100 ended", len(m.ended))
		}
	})
}
