package around

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// panicked is a panic as an error.
type panicked struct{ cause any }

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.cause) }

// recovered runs an attempt and makes a panic a verdict: a failed attempt of class
// panic, which is recorded like any other while the process goes on. The stack is
// logged, as it is no business of those who read deliveries.
func recovered(ctx context.Context, log *slog.Logger, run func(context.Context) event.Verdict) (v event.Verdict) {
	began := time.Now()
	defer func() {
		if cause := recover(); cause != nil {
			log.ErrorContext(ctx, "an attempt panicked", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			v = event.Verdict{
				Ruling: event.Failure, Class: event.ClassPanic, Reason: fmt.Sprintf("panic: %v", cause),
				StartedAt: began, Duration: time.Since(began),
			}
		}
	}()
	return run(ctx)
}

// enter is a hook's Enter, with a panic as an error.
func enter(ctx context.Context, h Hook, about event.Context) (inner context.Context, exit Exit, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			inner, exit, err = ctx, nil, panicked{cause}
		}
	}()
	if inner, exit, err = h.Enter(ctx, about); inner == nil {
		inner = ctx
	}
	return inner, exit, err
}

// recorded is record, with a panic as an attempt of which nothing was recorded.
func recorded(ctx context.Context, log *slog.Logger, about event.Context, v event.Verdict, record func(context.Context, event.Verdict) event.Result) (result event.Result) {
	defer func() {
		if cause := recover(); cause != nil {
			log.ErrorContext(ctx, "recording an attempt panicked; its lease brings the delivery back", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			result = event.Result{Context: about, Verdict: v}
		}
	}()
	return record(ctx, v)
}

// Guarded does what follows a record: a panic is logged, and what was recorded stands.
func Guarded(ctx context.Context, log *slog.Logger, what string, do func()) {
	defer func() {
		if cause := recover(); cause != nil {
			log.ErrorContext(ctx, what+" panicked; the record stands", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	do()
}

// leave is an Exit, with a panic as an error.
func leave(exit Exit, result event.Result) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = panicked{cause}
		}
	}()
	return exit(result)
}
