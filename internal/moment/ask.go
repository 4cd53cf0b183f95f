package moment

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Inline asks inline receivers.
type Inline struct {
	Courier Courier
	Book    Book
	Log     *slog.Logger
}

// Ask makes one request, at the address as it is now.
func (i *Inline) Ask(ctx context.Context, e *event.Event, to *event.Target) event.Verdict {
	return ask(ctx, i.Courier, i.Book.Target(to.ID), e, i.Log)
}

// ask makes one request of an event to a target, under an id that no delivery has. It is
// total: what keeps it from being made is a verdict too.
func ask(ctx context.Context, courier Courier, to *event.Target, e *event.Event, log *slog.Logger) (v event.Verdict) {
	defer func() {
		if cause := recover(); cause != nil {
			log.ErrorContext(ctx, "a request without a delivery panicked", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			v = event.Verdict{Ruling: event.Failure, Class: event.ClassPanic, Reason: fmt.Sprintf("panic: %v", cause)}
		}
	}()
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
