package moment

import (
	"context"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// ask makes one request of an event to a target, under an id that no delivery has. It is
// total: what keeps it from being made is a verdict too.
func ask(ctx context.Context, courier Courier, to *event.Target, e *event.Event) event.Verdict {
	switch {
	case to == nil || to.Deleted:
		return unasked("it is gone")
	case to.Paused:
		return unasked("it is paused")
	case to.Unusable != "":
		return unasked(to.Unusable)
	}
	now := time.Now()
	c := &event.Claim{Event: *e, TargetID: to.ID, To: to, MaxAttempts: 1, Format: to.Receiver.Format}
	c.Delivery = event.NewID(now)
	if err := courier.Check(c); err != nil {
		return unasked(err.Error())
	}
	return courier.Attempt(ctx, c)
}

// unasked is the verdict where no request was made.
func unasked(why string) event.Verdict {
	return event.Verdict{Ruling: event.Failure, Class: event.ClassDecode, Reason: "no request is made: " + why}
}
