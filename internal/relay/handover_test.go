package relay_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/relay"
	"github.com/eventsvc/eventsvc/internal/task"
)

// post is a backend in memory.
type post struct {
	mu    sync.Mutex
	sent  []task.Message
	tries int
	away  bool
}

func (p *post) Publish(_ context.Context, _ string, m task.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries++
	if p.away {
		return errors.New("away")
	}
	p.sent = append(p.sent, m)
	return nil
}

func (p *post) set(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// all are the messages that were sent.
func (p *post) all() []task.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

func (p *post) last() task.Message { all := p.all(); return all[len(all)-1] }

func handing(p *post) func(*relay.Options) { return func(o *relay.Options) { o.Tasks = p } }

// sited is a memory whose first target is for worker processes, and whose second is not.
func sited() *memory {
	m := newMemory(pulled("task"), receiver("own"))
	m.targets[1].URL = "https://shop.example.com/hooks"
	return m
}

// never is a receiver that must not be asked.
func never(t *testing.T) courier {
	return func(_ context.Context, c *event.Claim) event.Verdict {
		if c.TargetID == 1 {
			t.Error("it was run by the relay")
		}
		return event.Verdict{Ruling: event.Success}
	}
}

// T6, T52: a relay hands over under the claim it holds, and runs nothing itself, whoever
// wants it run.
func TestARelayHandsOverWhatIsForWorkersAndRunsNothingOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := sited(), &post{}
		s := start(t, m, never(t), handing(p))
		ids := m.owe(1, 40, 5)
		own := m.owe(2, 1, 5)[0]
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(p.all()) != len(ids) || m.held() != len(ids) || m.status(own) != event.Succeeded {
			t.Errorf("%d of %d sent, %d held, the other is %q", len(p.all()), len(ids), m.held(), m.status(own))
		}
		for _, sent := range p.all() {
			if r := m.at(sent.Delivery); r.by != -1 || !sent.ClaimedAt.Equal(r.ClaimedAt) || sent.By != 1 || sent.Target != 1 || time.Until(r.lease) < 28*time.Second {
				t.Errorf("sent %+v of %+v", sent, r)
			}
		}
		// Nobody takes them: the leases lapse, and they are handed over anew.
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if len(p.all()) != 2*len(ids) {
			t.Errorf("%d sent after the leases", len(p.all()))
		}
		wish := m.owe(1, 1, 5)[0]
		if ended, err := s.Deliver(t.Context(), wish); ended || err != nil || p.last().Delivery != wish {
			t.Errorf("a person's wish: %v, %v", ended, err)
		}
	})
}

// What cannot be sent goes back at once, and does not make the relay spin.
func TestWhatCannotBeHandedOverGoesBackAndIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := sited(), &post{away: true}
		s := start(t, m, never(t), handing(p))
		m.owe(1, 100, 5)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if m.held() != 0 || p.tries < 20 || p.tries > 100 || len(m.trail) != 0 {
			t.Errorf("%d held, tried %d times, trail %d", m.held(), p.tries, len(m.trail))
		}
		if own := m.owe(2, 1, 5)[0]; true {
			time.Sleep(2 * time.Second)
			if m.status(own) != event.Succeeded {
				t.Error("another receiver waits for it")
			}
		}
		p.set(false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(p.all()) != 100 {
			t.Errorf("%d sent once it is back", len(p.all()))
		}
		if s.log.count("could not be handed over") == 0 {
			t.Error("nothing is said")
		}
	})
}

// T51: no backend is an error of those deliveries alone.
func TestWithoutABackendADeliveryFailsAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := sited()
		start(t, m, never(t))
		id, own := m.owe(1, 1, 2)[0], m.owe(2, 1, 5)[0]
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.status(id) != event.Dead || m.status(own) != event.Succeeded {
			t.Errorf("it is %q, the other %q", m.status(id), m.status(own))
		}
		for _, e := range m.trail {
			if e.Delivery == id && (e.Settlement.Class != event.ClassTask || e.Settlement.Error == "") {
				t.Errorf("recorded %+v", e.Settlement)
			}
		}
	})
}

// worker is a worker process over the ledger of a relay.
func worker(t *testing.T, m *memory, c courier) (*relay.Taker, *lines, func()) {
	log := &lines{}
	o := options(m, c, log)
	o.Worker = 2
	r := relay.NewRunner(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return relay.NewTaker(r, func(event.TargetID) {}), log, stop
}

// T46, T47, T48, DUP-08: of any copies of a message one runs its receiver; one of an
// earlier claim, of another worker, or of a row that went back runs nothing.
func TestAMessageRunsItsReceiverOnceHoweverOftenItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := sited(), &post{}
		start(t, m, never(t), handing(p))
		var runs atomic.Int32
		w, log, _ := worker(t, m, func(context.Context, *event.Claim) event.Verdict {
			runs.Add(1)
			time.Sleep(time.Second)
			return event.Verdict{Ruling: event.Success}
		})
		id := m.owe(1, 1, 5)[0]
		time.Sleep(2 * time.Second)
		sent := p.all()[0]
		for _, wrong := range []task.Message{{Fence: sent.Fence, By: 3}, {Fence: event.Fence{Delivery: sent.Delivery, ClaimedAt: sent.ClaimedAt.Add(-time.Microsecond)}, By: sent.By},
			{Fence: event.Fence{Delivery: event.NewID(time.Now()), ClaimedAt: sent.ClaimedAt}, By: sent.By}} {
			if !w.Handle(t.Context(), wrong) {
				t.Error("a message that proves nothing is to come again")
			}
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if !w.Handle(t.Context(), sent) {
					t.Error("it is to come again")
				}
			})
		}
		all.Wait()
		time.Sleep(2 * time.Second)
		if !w.Handle(t.Context(), sent) || runs.Load() != 1 || m.status(id) != event.Succeeded {
			t.Errorf("ran %d times, and is %q", runs.Load(), m.status(id))
		}
		if log.count("nothing is run") != 3+4+1 {
			t.Errorf("%d lines", log.count("nothing is run"))
		}
	})
}

// What a process may have under way at one target holds for worker processes as well.
func TestAWorkerTakesNoMoreOfATargetThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := sited(), &post{}
		m.targets[1].Receiver.MaxConcurrency = 2
		start(t, m, never(t), handing(p))
		w, _, stop := worker(t, m, func(context.Context, *event.Claim) event.Verdict {
			time.Sleep(time.Second)
			return event.Verdict{Ruling: event.Success}
		})
		m.owe(1, 3, 5)
		time.Sleep(5 * time.Second)
		if !w.Handle(t.Context(), p.all()[0]) || !w.Handle(t.Context(), p.all()[1]) || w.Handle(t.Context(), p.all()[2]) {
			t.Error("the bound of two does not hold")
		}
		time.Sleep(2 * time.Second)
		if !w.Handle(t.Context(), p.all()[2]) {
			t.Error("there is room, and it is not taken")
		}
		synctest.Wait()
		// P9: a process that stops finishes what it took, and gives back what it takes then.
		stop()
		synctest.Wait()
		if len(m.ended) != 3 {
			t.Errorf("%d ended", len(m.ended))
		}
		last := m.owe(1, 1, 5)[0]
		time.Sleep(2 * time.Second)
		if sent := p.last(); sent.Delivery != last || !w.Handle(t.Context(), sent) || m.at(last).by > 1 {
			t.Errorf("held by %d after the stop", m.at(last).by)
		}
	})
}
