package around

import (
	"errors"
	"fmt"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// refusal is an error that is read as a verdict.
type refusal struct{ verdict event.Verdict }

func (r refusal) Error() string { return r.verdict.Reason }

// Refuse makes the error with which Enter gives a verdict in the receiver's place:
// permanent, retry-after or not-yet mean what they mean from a receiver. A verdict that
// no receiver could give, a success or a not-yet without a moment to come, is an
// ordinary failure that says so.
func Refuse(v event.Verdict) error { return refusal{v} }

// refused is the verdict of a hook that did not let the receiver run.
func refused(err error, began time.Time) event.Verdict {
	v := ruling(err, time.Now())
	if v.StartedAt.IsZero() {
		v.StartedAt, v.Duration = began, time.Since(began)
	}
	return v
}

func ruling(err error, now time.Time) event.Verdict {
	var r refusal
	var p panicked
	switch {
	case errors.As(err, &r):
		return sensible(r.verdict, now)
	case errors.As(err, &p):
		return event.Verdict{Ruling: event.Failure, Class: event.ClassPanic, Reason: err.Error()}
	}
	return event.Verdict{Ruling: event.Failure, Class: event.ClassAround, Reason: err.Error()}
}

// sensible is a hook's verdict in the form that a receiver's would have.
func sensible(v event.Verdict, now time.Time) event.Verdict {
	v.HTTPStatus, v.Evidence = 0, nil
	switch v.Ruling {
	case event.Permanent:
		v.Class = event.ClassPermanent
	case event.RetryAfter:
		v.Class, v.After = event.ClassRetryAfter, min(v.After, event.MaxDuration)
		if v.After < 0 {
			return senseless(v, "asks to be tried again before now")
		}
	case event.NotYet:
		v.Class, v.Until = "", v.Until.UTC().Truncate(time.Microsecond)
		if !v.Until.After(now) || v.Until.Sub(now) > event.MaxDuration {
			return senseless(v, "says that the work is not due, but not until when within the next ten years")
		}
	case event.Failure:
		v.Class = event.ClassAround
	default:
		return senseless(v, fmt.Sprintf("refuses with the ruling %q", v.Ruling))
	}
	if v.Reason == "" {
		v.Reason = "a hook did not let the receiver run"
	}
	return v
}

func senseless(v event.Verdict, what string) event.Verdict {
	reason := "a hook " + what
	if v.Reason != "" {
		reason += ": " + v.Reason
	}
	return event.Verdict{Ruling: event.Failure, Class: event.ClassAround, Reason: reason, StartedAt: v.StartedAt, Duration: v.Duration}
}
