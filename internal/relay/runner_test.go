package relay_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// telling is a courier that also hears what on_failure is told.
type telling struct {
	courier
	tell  func(*event.Notice) error
	check func(*event.Claim) error
	mu    sync.Mutex
	told  []event.Notice
}

func (c *telling) Check(claim *event.Claim) error {
	if c.check == nil {
		return nil
	}
	return c.check(claim)
}

func (c *telling) Tell(_ context.Context, _ *event.Target, n *event.Notice) error {
	c.mu.Lock()
	c.told = append(c.told, *n)
	c.mu.Unlock()
	if c.tell == nil {
		return nil
	}
	return c.tell(n)
}

func (c *telling) statuses() (s []event.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.told {
		s = append(s, n.Status)
	}
	return s
}

func with(c relay.Courier) func(*relay.Options) { return func(o *relay.Options) { o.Courier = c } }

func told(key string) *event.Receiver {
	r := receiver(key)
	r.OnFailure, r.MaxAttempts = "https://shop.example.com/failures", 3
	return r
}

// T20, T35 in part: told of each failed attempt, by what the row is then.
func TestOnFailureIsToldOfFailedAndOfDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(told("k")), &telling{courier: refuse}
		id := m.owe(1, 1, 3)[0]
		c.tell = func(n *event.Notice) error {
			if (m.status(id) == event.Dead) != (n.Status == event.Dead) {
				t.Errorf("told %s before the row was updated", n.Status)
			}
			return nil
		}
		s := start(t, m, nil, with(c))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := c.statuses(); !slices.Equal(got, []event.Status{event.Failed, event.Failed, event.Dead}) {
			t.Errorf("told %v", got)
		}
		if n := c.told[1]; n.Attempt != 2 || n.DeliveryID != id || n.Class != event.ClassHTTP5xx || n.Error != "answered 500" || n.Receiver != "k" {
			t.Errorf("told %+v", n)
		}
		if s.log.count("failed delivery") != 3 {
			t.Errorf("%d failure lines", s.log.count("failed delivery"))
		}
	})
}

// Nobody is told of a success, of work that is not due, of what was lost, of what is
// gone, or of what cannot be decoded; and nobody who declared no address.
func TestOnFailureIsNotToldOfAnythingElse(t *testing.T) {
	for name, c := range map[string]struct {
		answer event.Verdict
		change func(*memory, event.ID)
		check  error
	}{
		"success":     {answer: event.Verdict{Ruling: event.Success}},
		"not yet":     {answer: event.Verdict{Ruling: event.NotYet, Until: time.Now().Add(1000 * time.Hour)}},
		"lost":        {answer: event.Verdict{Ruling: event.Failure, Class: event.ClassTimeout}, change: (*memory).steal},
		"undecodable": {check: errors.New("bad")},
		"unreadable":  {change: func(m *memory, _ event.ID) { m.targets[1].Unusable, m.targets[1].Unreadable = "bad", true }},
		"gone":        {change: func(m *memory, _ event.ID) { m.targets[1].Deleted = true }},
		"no address":  {answer: event.Verdict{Ruling: event.Permanent, Class: event.ClassPermanent}, change: func(m *memory, _ event.ID) { m.targets[1].Receiver.OnFailure = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(told("k"))
				id := m.owe(1, 1, 3)[0]
				co := &telling{check: func(*event.Claim) error { return c.check }}
				co.courier = func(context.Context, *event.Claim) event.Verdict {
					if name == "lost" {
						c.change(m, id)
					}
					return c.answer
				}
				if c.change != nil && name != "lost" {
					c.change(m, id)
				}
				start(t, m, nil, with(co))
				time.Sleep(time.Second)
				synctest.Wait()
				if len(co.told) != 0 {
					t.Errorf("told %+v", co.told)
				}
			})
		})
	}
}

// T35.
func TestAnOnFailureThatFailsIsLoggedAndSwallowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(told("k")), &telling{courier: refuse, tell: func(*event.Notice) error { return errors.New("it answered 500") }}
		id := m.owe(1, 1, 3)[0]
		s := start(t, m, nil, with(c))
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.status(id) != event.Dead || s.log.count("level=ERROR") != 3 || s.log.count("on_failure of receiver k could not be told") != 3 {
			t.Errorf("status %q, log %s", m.status(id), s.log.text.String())
		}
	})
}

// LIFE-05: however slow the address is, and however much there is to tell it, no
// delivery waits for it, and only so many are told at one time.
func TestASlowOnFailureDelaysNoDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := told("k")
		r.MaxAttempts = 1
		m, c, seen := newMemory(r), &telling{courier: refuse}, &calls{}
		c.tell = func(*event.Notice) error { seen.during(5 * time.Second); return nil }
		ids := m.owe(1, 1500, 1)
		s := start(t, m, nil, with(c))
		time.Sleep(time.Second)
		synctest.Wait()
		for _, id := range ids {
			if m.status(id) != event.Dead {
				t.Fatal("a delivery waits for on_failure")
			}
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if seen.most.Load() != 32 {
			t.Errorf("%d told at one time", seen.most.Load())
		}
		if told, dropped := len(c.told), s.log.count("could not be told"); told+dropped != 1500 || told < 1000 {
			t.Errorf("%d told, %d said to be left out", told, dropped)
		}
	})
}

// T15: dead at once, the decoder named, one line, no hook, and the next one goes out.
func TestWhatCannotBeDecodedIsDeadWithoutAHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		ids := m.owe(1, 2, 5)
		entered := 0
		c := &telling{courier: succeed, check: func(c *event.Claim) error {
			if c.Delivery == ids[0] {
				return errors.New("jsontext: invalid character")
			}
			return nil
		}}
		s := start(t, m, nil, with(c), func(o *relay.Options) {
			o.Hook = around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
				entered++
				return ctx, nil, nil
			})
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if m.status(ids[0]) != event.Dead || m.status(ids[1]) != event.Succeeded || entered != 1 {
			t.Errorf("got %q, %q, %d hooks", m.status(ids[0]), m.status(ids[1]), entered)
		}
		if s.log.count("with decode; the row is dead") != 1 {
			t.Errorf("log: %s", s.log.text.String())
		}
		i := slices.IndexFunc(m.trail, func(e ledger.Entry) bool { return e.Delivery == ids[0] })
		if e := m.trail[i]; e.Settlement.Spent != 1 || e.Attempt.Error != "what is stored cannot be decoded: jsontext: invalid character" {
			t.Errorf("recorded %+v", e)
		}
	})
}

// RETRY-13: what this process lacks may come back; the attempt counts, and says why.
func TestATargetThatCannotBeUsedJustNowFailsOnItsCurve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver("k")
		r.Curve = event.Curve{Base: 1000 * time.Hour, Cap: 1000 * time.Hour}
		m := newMemory(r)
		m.targets[1].Unusable = "sealed with another key"
		id := m.owe(1, 1, 5)[0]
		start(t, m, func(context.Context, *event.Claim) event.Verdict { panic("a request was made") })
		synctest.Wait()
		if m.rows[id] == nil || m.rows[id].Attempts != 1 || m.trail[0].Attempt.Error != "sealed with another key" || m.trail[0].Attempt.Class != event.ClassDecode {
			t.Fatalf("got %+v", m.trail)
		}
		m.mu.Lock()
		m.targets[1] = &event.Target{ID: 1, Receiver: receiver("k")}
		m.rows[id].AvailableAt = time.Now().Add(time.Hour)
		m.mu.Unlock()
	})
}

func TestDeliverTriesOneDeliveryNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(throttled("k", "default"))
		id := m.owe(1, 1, 5)[0]
		m.rows[id].AvailableAt = time.Now().Add(time.Hour)
		answer, entered := deferral(time.Minute), 0
		s := start(t, m, func(context.Context, *event.Claim) event.Verdict { return answer }, func(o *relay.Options) {
			o.Hook = around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
				entered++
				return ctx, nil, nil
			})
		})
		synctest.Wait()
		if ended, err := s.Deliver(t.Context(), id); !ended || err != nil {
			t.Fatalf("got %v, %v", ended, err)
		}
		if entered != 1 || len(m.trail) != 1 || len(s.Pauses()) != 0 {
			t.Errorf("%d hooks, %d attempts, paused %v", entered, len(m.trail), s.Pauses())
		}
		answer = event.Verdict{Ruling: event.Success}
		if ended, err := s.Deliver(t.Context(), id); !ended || err != nil || m.status(id) != event.Succeeded {
			t.Errorf("got %v, %v, %q", ended, err, m.status(id))
		}
		if _, err := s.Deliver(t.Context(), id); !errors.Is(err, ledger.ErrEnded) {
			t.Errorf("a settled one: %v", err)
		}
	})
}

func TestDeliverRefusesWhatIsHeldOrPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"), receiver("paused"))
		m.targets[2].Paused = true
		held, paused := m.owe(1, 1, 5)[0], m.owe(2, 1, 5)[0]
		s := start(t, m, func(context.Context, *event.Claim) event.Verdict {
			time.Sleep(9 * time.Second)
			return event.Verdict{Ruling: event.Success}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := s.Deliver(t.Context(), held); !errors.Is(err, ledger.ErrClaimed) {
			t.Errorf("held: %v", err)
		}
		if _, err := s.Deliver(t.Context(), paused); !errors.Is(err, event.ErrPaused) {
			t.Errorf("paused: %v", err)
		}
	})
}

// A caller who goes away leaves the attempt to itself.
func TestAnAttemptOutlivesTheCallerWhoAskedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		id := m.owe(1, 1, 5)[0]
		m.rows[id].AvailableAt = time.Now().Add(time.Hour)
		s := start(t, m, func(context.Context, *event.Claim) event.Verdict {
			time.Sleep(9 * time.Second)
			return event.Verdict{Ruling: event.Success}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if ended, err := s.Deliver(ctx, id); ended || err != nil {
			t.Errorf("got %v, %v", ended, err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if m.status(id) != event.Succeeded {
			t.Errorf("status %q", m.status(id))
		}
	})
}

func TestSuccessesAreReportedAndOnceMoreAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("a"), receiver("b"))
		m.owe(1, 3, 5)
		s := start(t, m, succeed)
		time.Sleep(6 * time.Second)
		m.setDown(true)
		time.Sleep(6 * time.Second)
		m.setDown(false)
		m.owe(2, 1, 5)
		s.Wake([]event.TargetID{2})
		time.Sleep(20 * time.Second)
		s.stop()
		<-s.done
		slices.Sort(m.succeeded)
		if !slices.Equal(slices.Compact(m.succeeded), []event.TargetID{1, 2}) {
			t.Errorf("reported %v", m.succeeded)
		}
	})
}
