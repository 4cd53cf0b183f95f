package relay

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// teller tells receivers' on_failure of failed attempts, once each. However slow those
// addresses are, they hold up no delivery: the attempt has given its slot back before
// it is told of, and only so many are told, or wait to be, at one time.
type teller struct {
	courier Courier
	log     *slog.Logger
	lines   chan struct{}
	waiting atomic.Int64
}

const (
	tellTimeout = 5 * time.Second
	maxTelling  = 32
	maxToTell   = 1000
)

func newTeller(c Courier, log *slog.Logger) *teller {
	return &teller{courier: c, log: log, lines: make(chan struct{}, maxTelling)}
}

// tell makes one request. What goes wrong with it is logged and goes no further: the
// record stands.
func (t *teller) tell(ctx context.Context, to *event.Target, f event.Notice) {
	defer t.waiting.Add(-1)
	if t.waiting.Add(1) > maxToTell {
		t.failed(ctx, f, fmt.Errorf("%d others are being told already", maxToTell))
		return
	}
	select {
	case t.lines <- struct{}{}:
		defer func() { <-t.lines }()
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	if err := t.courier.Tell(ctx, to, &f); err != nil {
		t.failed(ctx, f, err)
	}
}

func (t *teller) failed(ctx context.Context, f event.Notice, err error) {
	t.log.ErrorContext(ctx, fmt.Sprintf("on_failure of receiver %s could not be told of attempt %d of delivery %s; the record stands",
		f.Receiver, f.Attempt, f.DeliveryID.Text(event.DeliveryPrefix)), "err", err)
}
