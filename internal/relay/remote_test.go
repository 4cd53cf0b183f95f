package relay_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// pulled is a receiver that workers elsewhere claim for.
func pulled(key string) *event.Receiver {
	r := receiver(key)
	r.Task = true
	return r
}

func TestARelayLeavesAloneWhatWorkersElsewhereClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(pulled("k"))
		s := start(t, m, succeed)
		id := m.owe(1, 1, 5)[0]
		s.Wake([]event.TargetID{1})
		time.Sleep(time.Minute)
		if len(m.claims) != 0 {
			t.Errorf("claimed %d times", len(m.claims))
		}
		if _, err := s.Deliver(t.Context(), id); !errors.Is(err, event.ErrPulled) {
			t.Errorf("deliver: %v", err)
		}
		m.mu.Lock()
		gone := *m.targets[1]
		gone.Deleted = true
		m.targets[1] = &gone
		m.mu.Unlock()
		s.Look()
		time.Sleep(2 * time.Second)
		if m.status(id) != event.Orphaned {
			t.Errorf("its receiver is gone, and it is %q", m.status(id))
		}
	})
}

func TestAClaimThatItsWorkerDoesNotWaitForIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(pulled("k"))
		s := start(t, m, succeed)
		remote := relay.NewRemote(s.Runner, m, m)
		m.owe(1, 3, 5)
		ctx, leave := context.WithCancel(t.Context())
		m.reading = leave
		if claims, _ := remote.Claim(ctx, "default", "w", 3, time.Second); len(claims) != 0 || m.held() != 0 {
			t.Errorf("answered %d, and %d are held", len(claims), m.held())
		}
		m.reading = nil
		if claims, err := remote.Claim(t.Context(), "default", "w", 3, 0); len(claims) != 3 || err != nil {
			t.Errorf("then %d, %v", len(claims), err)
		}
	})
}

// A verdict that could not be written is not lost for that: its worker is told to say it
// again.
func TestAVerdictThatCannotBeWrittenIsNotCalledLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(pulled("k"))
		s := start(t, m, succeed)
		away := &unwritable{memory: m}
		remote := relay.NewRemote(s.Runner, away, m)
		id := m.owe(1, 1, 5)[0]
		claims, err := remote.Claim(t.Context(), "default", "w", 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		by := ledger.Holding{Fence: claims[0].Fence, Worker: "w"}
		away.now = true
		if err := remote.Complete(t.Context(), by, event.Verdict{Ruling: event.Success}); err == nil || errors.Is(err, ledger.ErrClaimLost) {
			t.Errorf("the database is away: %v", err)
		}
		away.now = false
		if err := remote.Complete(t.Context(), by, event.Verdict{Ruling: event.Success}); err != nil || m.status(id) != event.Succeeded {
			t.Errorf("then %v, and it is %q", err, m.status(id))
		}
		if s.log.count("claim was lost") != 0 {
			t.Error("a claim was called lost")
		}
		s.stop()
		<-s.done
		if _, err := remote.Claim(t.Context(), "default", "w", 1, time.Hour); !errors.Is(err, event.ErrStopping) {
			t.Errorf("claimed of a service that stops: %v", err)
		}
	})
}

// Between reading a claim back and writing its verdict another may take the delivery.
func TestAVerdictUnderAClaimThatWasJustLostRecordsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(pulled("k"))
		s := start(t, m, succeed)
		remote := relay.NewRemote(s.Runner, stealing{m}, m)
		m.owe(1, 1, 5)
		claims, err := remote.Claim(t.Context(), "default", "w", 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Complete(t.Context(), ledger.Holding{Fence: claims[0].Fence, Worker: "w"}, event.Verdict{Ruling: event.Success}); !errors.Is(err, ledger.ErrClaimLost) {
			t.Errorf("recorded: %v", err)
		}
		synctest.Wait()
		if s.log.count("claim was lost") != 1 || len(m.trail) != 0 {
			t.Errorf("%d lines, trail %v", s.log.count("claim was lost"), m.trail)
		}
	})
}

// unwritable is a ledger that goes away between reading and writing.
type unwritable struct {
	*memory
	now bool
}

func (u *unwritable) Record(ctx context.Context, worker event.WorkerID, entries []ledger.Entry) ([]bool, []ledger.Health, error) {
	if u.now {
		return nil, nil, errDown
	}
	return u.memory.Record(ctx, worker, entries)
}

// stealing is a ledger in which another worker is always a moment faster.
type stealing struct{ *memory }

func (s stealing) Held(ctx context.Context, by ledger.Holding) (ledger.Held, error) {
	held, err := s.memory.Held(ctx, by)
	s.steal(by.Delivery)
	return held, err
}
