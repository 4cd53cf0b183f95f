package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/task"
)

// Taker is a worker process: it takes claims that relays handed over, and makes the
// attempts as a relay would. A deferral is recorded and pauses nothing here.
type Taker struct {
	*Runner
	note   func(event.TargetID) // of each success
	slots  chan struct{}
	crowds crowds
}

// NewTaker makes one over a runner, which must run.
func NewTaker(r *Runner, note func(event.TargetID)) *Taker {
	return &Taker{Runner: r, note: note, slots: make(chan struct{}, r.Slots)}
}

// Handle takes the claim of a message and begins its attempt; it returns once the claim
// is taken. The take is a transaction of its own: however often and late a message comes,
// its receiver runs once for it. False: the message is to come again, as the claim may
// still be there to be taken. Where every slot is taken it waits.
func (t *Taker) Handle(ctx context.Context, m task.Message) (done bool) {
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if !t.crowds.enter(t.Book.Target(m.Target), m.Target) {
		<-t.slots
		return false
	}
	leave := sync.OnceFunc(func() { t.crowds.leave(m.Target); <-t.slots })
	began, c, err := t.take(ctx, m)
	if err != nil {
		leave()
		about := []any{"delivery", m.Delivery.Text(event.DeliveryPrefix), "err", err}
		if errors.Is(err, ledger.ErrClaimLost) {
			t.Log.WarnContext(ctx, "a message came twice, or late, or its receiver is paused: its claim cannot be taken, and nothing is run", about...)
			return true
		}
		t.Log.WarnContext(ctx, "a claim that was handed over could not be taken; its message comes again", about...)
		return false
	}
	if !t.begin(func() {
		defer leave()
		t.attempt(c, began, course{came: func(result event.Result) {
			leave()
			if result.Recorded && result.Settlement.Status == event.Succeeded {
				t.note(c.TargetID)
			}
		}})
	}) {
		leave()
		t.handBack(context.WithoutCancel(ctx), c.Fence)
	}
	return true
}

// take is the claim with whom it is owed to, and the moment before it was asked for. A
// take under way is waited for even when stopping: its row must be handed back.
func (t *Taker) take(ctx context.Context, m task.Message) (time.Time, *event.Claim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	began := time.Now()
	c, revision, err := t.Ledger.Take(ctx, t.Worker, m.By, m.Fence)
	if err != nil {
		return began, nil, err
	}
	if err := t.Book.Reach(ctx, revision); err != nil {
		// Known nowhere here: the attempt hands it back.
		t.Log.WarnContext(ctx, "the registry could not be read; what was taken goes back", "err", err)
		return began, &c, nil
	}
	c.To = t.Book.Target(c.TargetID)
	return began, &c, nil
}
