package app

import (
	"context"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/function"
	"github.com/eventsvc/eventsvc/internal/moment"
)

// calling is a transaction as the desk knows it, whose functions are asked by the rules for
// every inline receiver.
type calling struct {
	*function.Inline
	asker *moment.Inline
}

// Ask calls one function.
func (c calling) Ask(ctx context.Context, e *event.Event, to *event.Target) event.Verdict {
	return c.asker.Ask(ctx, e, to)
}

func (h *house) call(ctx context.Context) (fire.Calling, error) {
	open, err := h.calls.Open(ctx)
	if err != nil {
		return nil, err
	}
	return calling{open, &moment.Inline{Courier: open, Book: h.book, Log: h.Log}}, nil
}
