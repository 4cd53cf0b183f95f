package relay_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// functions are those of a database in memory: what a call writes is written down once it
// is acknowledged.
type functions struct {
	m     *memory
	does  func(*event.Claim) event.Verdict
	fails func() *event.Verdict // in place of an acknowledgement, where it answers one
	full  atomic.Bool           // there is no connection
	check error

	open    int
	written []event.ID
	steps   []string
}

type call struct {
	*functions
	claim *event.Claim
	wrote bool
}

func (f *functions) Check(*event.Claim) error { return f.check }

func (f *functions) Take(ctx context.Context, c *event.Claim) (relay.Call, error) {
	if f.full.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.open++
	return &call{functions: f, claim: c}, nil
}

func (c *call) Make(context.Context) event.Verdict {
	c.steps = append(c.steps, "call")
	v := c.does(c.claim)
	c.wrote = v.Ruling == event.Success
	return v
}

func (c *call) Acknowledge(ctx context.Context, worker event.WorkerID, e ledger.Entry) (bool, *event.Verdict) {
	c.steps = append(c.steps, "commit")
	if c.fails != nil {
		if v := c.fails(); v != nil {
			return false, v
		}
	}
	recorded, _, err := c.m.Record(ctx, worker, []ledger.Entry{e})
	if err != nil || !recorded[0] || !c.wrote {
		return false, nil
	}
	c.written = append(c.written, c.claim.Delivery)
	return true, nil
}

func (c *call) End() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.open--
}

// calling starts a relay whose receiver k is a function.
func calling(t *testing.T, does func(*event.Claim) event.Verdict, change ...func(*relay.Options)) (*memory, *functions, *station) {
	r := receiver("k")
	r.Function, r.MaxAttempts = "app.f", 3
	m := newMemory(r)
	f := &functions{m: m, does: does}
	noRequest := func(context.Context, *event.Claim) event.Verdict { panic("a request was made") }
	s := start(t, m, noRequest, append([]func(*relay.Options){func(o *relay.Options) { o.Functions = f }}, change...)...)
	return m, f, s
}

func works(*event.Claim) event.Verdict { return event.Verdict{Ruling: event.Success} }

func TestAFunctionIsAcknowledgedInsideTheHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *functions
		watch := func(o *relay.Options) {
			o.Hook = around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
				f.steps = append(f.steps, "enter")
				return ctx, func(r event.Result) error {
					if r.Recorded {
						f.steps = append(f.steps, "exit")
					}
					return nil
				}, nil
			})
		}
		m, f2, _ := calling(t, works, watch)
		f = f2
		id := m.owe(1, 1, 3)[0]
		time.Sleep(time.Second)
		synctest.Wait()
		if got := strings.Join(f.steps, " "); got != "enter call commit exit" || len(f.written) != 1 || f.open != 0 {
			t.Errorf("got %s, %d written, %d open", got, len(f.written), f.open)
		}
		if m.status(id) != event.Succeeded || m.records != 1 {
			t.Errorf("%s, recorded %d times", m.status(id), m.records)
		}
	})
}

// What a function raised is recorded by itself, as its transaction is gone.
func TestAFunctionsFailureIsRecordedLikeAnyOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f, s := calling(t, func(*event.Claim) event.Verdict {
			return event.Verdict{Ruling: event.Failure, Class: event.SQLClass("P0001"), StartedAt: time.Now()}
		})
		id := m.owe(1, 1, 2)[0]
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.status(id) != event.Dead || len(f.written) != 0 || f.open != 0 || s.log.count("attempt 2 with sql:P0001; the row is dead") != 1 {
			t.Errorf("%s, %d written, the log:\n%s", m.status(id), len(f.written), s.log.text.String())
		}
	})
}

func TestAnAcknowledgementThatFailedIsAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f, _ := calling(t, works)
		failed := false
		f.fails = func() *event.Verdict {
			if failed {
				return nil
			}
			failed = true
			return &event.Verdict{Ruling: event.Failure, Class: event.ClassConnect, StartedAt: time.Now()}
		}
		id := m.owe(1, 1, 3)[0]
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.status(id) != event.Succeeded || len(f.written) != 1 || len(m.trail) != 2 || m.trail[0].Settlement.Class != event.ClassConnect {
			t.Errorf("%s, %d written, %+v", m.status(id), len(f.written), m.trail)
		}
	})
}

// P5.
func TestAFunctionWhoseClaimWasLostWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *memory
		m2, f, s := calling(t, func(c *event.Claim) event.Verdict { m.steal(c.Delivery); return works(c) })
		m = m2
		m.owe(1, 1, 3)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(f.written) != 0 || len(m.trail) != 0 || s.log.count("after its claim was lost") != 1 {
			t.Errorf("%d written, %+v", len(f.written), m.trail)
		}
	})
}

func TestADeliveryThatWaitsForAConnectionInVainGoesBackUnspent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f, s := calling(t, works)
		f.full.Store(true)
		id := m.owe(1, 1, 3)[0]
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if len(m.trail) != 0 || s.log.count("for want of a connection") != 1 {
			t.Fatalf("recorded %+v, the log:\n%s", m.trail, s.log.text.String())
		}
		f.full.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.status(id) != event.Succeeded || m.trail[0].Attempt.Number != 1 {
			t.Errorf("%s, %+v", m.status(id), m.trail)
		}
	})
}

func TestAHookThatRefusesLetsNoFunctionRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuses := func(o *relay.Options) {
			o.Hook = around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
				return ctx, nil, errors.New("not today")
			})
		}
		m, f, _ := calling(t, works, refuses)
		id := m.owe(1, 1, 1)[0]
		time.Sleep(time.Second)
		synctest.Wait()
		if m.status(id) != event.Dead || len(f.steps) != 0 || f.open != 0 {
			t.Errorf("%s, %v, %d open", m.status(id), f.steps, f.open)
		}
	})
}

func TestWhatAFunctionCannotBeGivenIsDeadWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f, _ := calling(t, works)
		f.check = errors.New(`data holds \u0000`)
		id := m.owe(1, 1, 3)[0]
		time.Sleep(time.Second)
		synctest.Wait()
		if m.status(id) != event.Dead || len(f.steps) != 0 || m.trail[0].Settlement.Class != event.ClassDecode {
			t.Errorf("%s, %v, %+v", m.status(id), f.steps, m.trail)
		}
	})
}
