package relay

import (
	"context"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// How often the ledger is asked for attempts that others made, in the place of this
// process: at first, and at last.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// Await returns once an attempt was recorded of each of an event's deliveries, by whomever,
// or it has ended; or the context has, or the process's work. Of one event one may wait.
func (e *Eager) Await(ctx context.Context, of event.ID, ids []event.ID) {
	told := make(chan struct{}, 1)
	e.mu.Lock()
	e.listen[of] = told
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.listen, of)
		e.mu.Unlock()
	}()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		again := time.NewTimer(pause)
		select {
		case <-told:
		case <-again.C:
		case <-e.work.Done():
			again.Stop()
			return
		case <-ctx.Done():
			again.Stop()
			return
		}
		again.Stop()
		untried, err := e.trail.Untried(ctx, of, ids)
		if err == nil && len(untried) == 0 {
			return
		}
	}
}

// tell has whoever waits for attempts at an event look.
func (e *Eager) tell(of event.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case e.listen[of] <- struct{}{}:
	default: // nobody waits, or it was told
	}
}
