package app

import (
	"context"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/function"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// functions is the caller as the relay knows it.
type functions struct{ *function.Caller }

// Take waits for a connection, until the context ends.
func (f functions) Take(ctx context.Context, c *event.Claim) (relay.Call, error) {
	call, err := f.Caller.Take(ctx, c)
	if err != nil {
		return nil, err
	}
	return call, nil
}

// try calls a function without acknowledging it: what it wrote is undone.
func (f functions) try(ctx context.Context, c *event.Claim) (event.Verdict, error) {
	if err := f.Check(c); err != nil {
		return event.Verdict{Ruling: event.Permanent, Class: event.ClassDecode, Reason: err.Error()}, nil
	}
	waiting, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	call, err := f.Take(waiting, c)
	if err != nil {
		return event.Verdict{}, err
	}
	defer call.End()
	return call.Make(ctx), nil
}
