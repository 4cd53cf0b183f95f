package relay

import (
	"context"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/task"
)

// Tasks is how claims get to worker processes.
type Tasks interface {
	// Publish returns once the message is stored; an error says that it may not be.
	Publish(ctx context.Context, lane string, m task.Message) error
}

// dispatched is where an attempt was made.
type dispatched int

const (
	here          dispatched = iota // or nowhere, with nothing to hand over
	handedOver                      // to a worker process
	notHandedOver                   // which it was for: the target is left alone for a moment
)

// handOverPause is for how long what cannot be handed over is left alone.
const handOverPause = time.Second

// dispatch makes an attempt, or hands it over where it is not to be made here. What is
// for worker processes is never run here instead.
func (r *Runner) dispatch(c *event.Claim, began time.Time, on course) dispatched {
	if c.To == nil || c.To.Deleted || !c.To.Receiver.Task || c.To.Pulled() {
		r.attempt(c, began, on)
		return here
	}
	if r.Tasks == nil {
		v := event.Verdict{Ruling: event.Failure, Class: event.ClassTask, StartedAt: time.Now(),
			Reason: "its site is task, and this service has nothing to hand it over with: EVENTSVC_NATS_URL is not set"}
		r.after(r.work, c, r.settle(r.work, c, c.Context(), v, nil, began, began.Add(c.Lease()), false), on.came)
		return here
	}
	if !r.handOver(r.work, c) {
		return notHandedOver
	}
	return handedOver
}

// handOver offers the claim, with the whole of its receiver's lease before it, and tells
// the workers of its lane. An offer that cannot be sent ends at once; should a worker
// have heard of it all the same, it finds nothing to take. It reports whether there is
// nothing more to do.
func (r *Runner) handOver(ctx context.Context, c *event.Claim) bool {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	about := []any{"delivery", c.Delivery.Text(event.DeliveryPrefix), "receiver", c.To.Receiver.Key}
	stands, err := r.Ledger.HandOver(ctx, r.Worker, c.Fence, c.To.Receiver.Lease)
	switch {
	case err != nil:
		r.Log.WarnContext(ctx, "a claim could not be handed over; it returns when its lease lapses", append(about, "err", err)...)
		return false
	case !stands:
		r.Log.WarnContext(ctx, "a claim was lost before it could be handed over; nothing is published", about...)
		return true
	}
	err = r.Tasks.Publish(ctx, c.To.Receiver.Lane, task.Message{Fence: c.Fence, By: r.Worker, Target: c.TargetID})
	if err == nil {
		return true
	}
	r.Log.WarnContext(ctx, "a claim could not be handed over; it goes back, and is tried again", append(about, "err", err)...)
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	if err := r.Ledger.TakeBack(back, r.Worker, c.Fence); err != nil {
		r.Log.WarnContext(ctx, "a claim could not be taken back; it returns when its lease lapses", append(about, "err", err)...)
	}
	return false
}
