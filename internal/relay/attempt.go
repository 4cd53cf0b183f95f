package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// attempt is one claim's whole life in this process. began is the moment before the
// claim was asked for: the lease is counted from it on our own clock, so that we stop
// before the database thinks we have.
func (r *Relay) attempt(ctx context.Context, c *event.Claim, began time.Time) {
	switch lapse := began.Add(c.Lease()); {
	case c.To == nil:
		// Its declaration cannot be read here; another process, or a later version of
		// this one, may be able to.
		r.handBack(ctx, c)
	case c.To.Deleted:
		r.orphan(ctx, c, lapse)
	case time.Until(lapse) < c.To.Receiver.Timeout+event.LeaseMargin/2:
		r.handBack(ctx, c)
	default:
		r.run(ctx, c, began, lapse)
	}
}

func (r *Relay) handBack(ctx context.Context, c *event.Claim) {
	if err := r.Ledger.Release(ctx, r.Worker, []event.Fence{c.Fence}); err != nil {
		r.Log.WarnContext(ctx, "a claim could not be handed back; it returns when its lease lapses", "delivery", c.Delivery.Text(event.DeliveryPrefix), "err", err)
	}
}

// orphan ends a delivery whose receiver or target is gone. No attempt was made, so
// none is counted, kept or logged as failed.
func (r *Relay) orphan(ctx context.Context, c *event.Claim, lapse time.Time) {
	r.recorder.record(ctx, ledger.Entry{Fence: c.Fence, Settlement: event.Settlement{Status: event.Orphaned}}, lapse)
}

func (r *Relay) run(ctx context.Context, c *event.Claim, began, lapse time.Time) {
	about := c.Context()
	around.Attempt(ctx, r.Hook, about, r.Log,
		func(ctx context.Context) event.Verdict { return r.Courier.Attempt(ctx, c) },
		func(ctx context.Context, v event.Verdict) event.Result {
			if ctx.Err() != nil {
				// Cut by a stop whose grace is over: nobody knows how far the attempt came.
				// Nothing is recorded, and the lease brings the delivery back.
				return event.Result{Context: about, Verdict: v}
			}
			owed := c.ClaimedAt.Sub(c.OwedSince) + time.Since(began)
			s := event.Settle(c, c.To.Receiver.Terms, &v, owed, rand.Float64())
			recorded := r.recorder.record(ctx, entry(c, &v, s), lapse)
			result := event.Result{Context: about, Verdict: v, Settlement: s, Recorded: recorded}
			r.after(ctx, c, &result)
			return result
		})
}

func entry(c *event.Claim, v *event.Verdict, s event.Settlement) ledger.Entry {
	return ledger.Entry{
		Fence:      c.Fence,
		Settlement: s,
		Attempt: event.Attempt{
			Number: c.Attempt(), StartedAt: v.StartedAt, Duration: v.Duration, Outcome: s.Outcome, Class: s.Class,
			HTTPStatus: v.HTTPStatus, Error: s.Error, Evidence: v.Evidence,
		},
	}
}

// after is what follows a recorded settlement in this process. A worker that lost its
// claim says one thing, that it did, and does nothing else (P5).
func (r *Relay) after(ctx context.Context, c *event.Claim, result *event.Result) {
	s, v := &result.Settlement, &result.Verdict
	if !result.Recorded {
		r.Log.WarnContext(ctx, fmt.Sprintf("receiver %s finished an attempt after its claim was lost; nothing of it was recorded; if this recurs, its lease of %s is too short",
			result.Receiver, event.Duration(c.Lease())))
		return
	}
	if s.Clamped > 0 {
		r.Log.WarnContext(ctx, fmt.Sprintf("receiver %s asked delivery %s to wait %s; it will wait %s, which is as long as is allowed",
			result.Receiver, result.DeliveryID.Text(event.DeliveryPrefix), event.Duration(s.Clamped), event.Duration(c.To.Receiver.MaxRetryAfter)))
	}
	if s.Unbounded {
		if _, before := r.warned.LoadOrStore(result.Receiver, true); !before {
			r.Log.WarnContext(ctx, fmt.Sprintf("receiver %s defers without give_up_after; its deferrals are counted as attempts, since nothing else would end them", result.Receiver))
		}
	}
	if s.Status == event.Failed {
		r.board.wakeAt(c.TargetID, time.Now().Add(s.Wait))
	}
	if v.Failed() {
		r.Log.WarnContext(ctx, fmt.Sprintf("receiver %s failed delivery %s on attempt %d with %s; the row is %s",
			result.Receiver, result.DeliveryID.Text(event.DeliveryPrefix), result.Attempt, s.Class, s.Status))
	}
}
