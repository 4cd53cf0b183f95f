// Package around holds the hook that surrounds every durable attempt, and the four
// that are built in: the trace, the log's context, the meters, and recovery from
// panics.
//
// A hook enters before the receiver runs and exits after the outcome was recorded. It
// stands outside the transaction that records, so it can neither hold it open nor undo
// it. It surrounds attempts wherever they run, once each, and nothing else.
package around

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Hook is called around every durable attempt.
type Hook interface {
	// Enter is called before the receiver runs. It may change the context that the
	// attempt runs in. An error keeps the receiver from running: the attempt has failed,
	// counts, and is recorded with the error as its reason, since a hook that prepares
	// what the receiver relies on must not let it run without. An error made by [Refuse]
	// is read as the verdict it holds.
	//
	// The Exit that it answers is called exactly once, also beside an error; it may be nil.
	Enter(ctx context.Context, about event.Context) (context.Context, Exit, error)
}

// Exit is told what came of the attempt, after it was recorded. It cannot change it.
// An error, or a panic, is logged at ERROR and goes no further.
type Exit func(result event.Result) error

// HookFunc is a function as a Hook.
type HookFunc func(ctx context.Context, about event.Context) (context.Context, Exit, error)

// Enter calls the function.
func (f HookFunc) Enter(ctx context.Context, about event.Context) (context.Context, Exit, error) {
	return f(ctx, about)
}

// Stack composes hooks: they enter in order and exit in reverse. Where one refuses to
// enter, those before it exit all the same, and those behind it are never entered.
func Stack(hooks ...Hook) Hook { return stack(hooks) }

type stack []Hook

// Enter enters every hook of the stack.
func (s stack) Enter(ctx context.Context, about event.Context) (context.Context, Exit, error) {
	exits := make([]Exit, 0, len(s))
	var refused error
	for _, h := range s {
		inner, exit, err := enter(ctx, h, about)
		if exit != nil {
			exits = append(exits, exit)
		}
		if err != nil {
			refused = err
			break
		}
		ctx = inner
	}
	return ctx, func(result event.Result) error {
		var failed error
		for i := len(exits) - 1; i >= 0; i-- {
			failed = errors.Join(failed, leave(exits[i], result))
		}
		return failed
	}, refused
}

// Attempt runs one attempt inside a hook: it enters, runs, records, exits, in this
// order, and answers what record answered. It is the one place where attempts run,
// whoever runs them.
//
// record is called exactly once, with the verdict of run, or with the hook's where it
// refused, or with a failure of class panic where either panicked. Its context carries
// what the hook put there, for the lines that are logged meanwhile, and ends with ctx
// alone: a hook cannot keep an outcome from being recorded. Should record itself panic, nothing was
// recorded as far as anybody knows, the hook exits all the same, and the process goes on.
func Attempt(ctx context.Context, hook Hook, about event.Context, log *slog.Logger,
	run func(context.Context) event.Verdict, record func(context.Context, event.Verdict) event.Result) event.Result {
	began := time.Now()
	inner, exit, err := enter(ctx, hook, about)
	var verdict event.Verdict
	if err != nil {
		verdict = refused(err, began)
	} else {
		verdict = recovered(inner, log, run)
	}
	result := recorded(within(inner, ctx), log, about, verdict, record)
	if exit != nil {
		if err := leave(exit, result); err != nil {
			log.ErrorContext(inner, "a hook failed after the attempt was recorded; the record stands", "err", err)
		}
	}
	return result
}
