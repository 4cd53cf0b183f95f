package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Fresh is a delivery that was just owed, and the lease that it is wanted for.
type Fresh struct {
	ID    event.ID
	Lease time.Duration
}

// ClaimFresh leases deliveries that were just owed to a worker, in no order. Those that
// are missing in what it answers were another's first, are paused, or not due yet.
func (l *Ledger) ClaimFresh(ctx context.Context, worker event.WorkerID, wanted []Fresh) (Claims, error) {
	ids, leases := make([][16]byte, len(wanted)), make([]time.Duration, len(wanted))
	for i, f := range wanted {
		ids[i], leases[i] = f.ID, f.Lease
	}
	var claimed Claims
	var row claimRow
	args := pg.Args{"ids": ids, "leases": leases, "worker": int32(worker)}
	if err := l.pinned(ctx, sqlClaimFresh, args, func(rows pgx.Rows) error {
		c, err := row.scan(rows, &claimed.Revision)
		claimed.Claims = append(claimed.Claims, c)
		return err
	}); err != nil {
		return Claims{}, fmt.Errorf("claim what was just owed: %w", err)
	}
	return claimed, nil
}

// Untried are those of an event's deliveries that are owed and of which no attempt was
// recorded yet.
func (l *Ledger) Untried(ctx context.Context, of event.ID, ids []event.ID) ([]event.ID, error) {
	var untried []event.ID
	args := pg.Args{"event": [16]byte(of), "ids": raw(ids)}
	if err := l.pinned(ctx, sqlUntried, args, func(rows pgx.Rows) error {
		var id event.ID
		err := rows.Scan((*[16]byte)(&id))
		untried = append(untried, id)
		return err
	}); err != nil {
		return nil, fmt.Errorf("look for deliveries without an attempt: %w", err)
	}
	return untried, nil
}
