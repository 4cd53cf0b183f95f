package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// HandOver offers a claim to whoever brings its proof, for a lease from now, and reports
// whether it stands: false means that the claim was lost.
func (l *Ledger) HandOver(ctx context.Context, worker event.WorkerID, f event.Fence, lease time.Duration) (bool, error) {
	args := pg.Args{"id": [16]byte(f.Delivery), "claimed": f.ClaimedAt, "worker": int32(worker), "lease": lease}
	stands := false
	if err := l.pinned(ctx, sqlHandOver, args, func(pgx.Rows) error { stands = true; return nil }); err != nil {
		return false, fmt.Errorf("hand a claim over: %w", err)
	}
	return stands, nil
}

// TakeBack ends an offer that could not be sent; the row keeps its place. One that was
// taken is left alone.
func (l *Ledger) TakeBack(ctx context.Context, worker event.WorkerID, f event.Fence) error {
	args := pg.Args{"id": [16]byte(f.Delivery), "claimed": f.ClaimedAt, "worker": int32(worker)}
	if err := l.pinned(ctx, sqlTakeBack, args, func(pgx.Rows) error { return nil }); err != nil {
		return fmt.Errorf("take a claim back: %w", err)
	}
	return nil
}

// Take makes a claim that another worker handed over this worker's own, with the lease it
// was handed over with, and answers the registry's revision with it. It commits alone, so
// that of any number of takes with one proof at most one succeeds; the others, and those
// that come late, are [ErrClaimLost].
func (l *Ledger) Take(ctx context.Context, worker, by event.WorkerID, f event.Fence) (c event.Claim, revision int64, err error) {
	found := false
	args := pg.Args{"id": [16]byte(f.Delivery), "claimed": f.ClaimedAt, "by": int32(by), "worker": int32(worker)}
	err = l.pinned(ctx, sqlTake, args, func(rows pgx.Rows) (err error) {
		found = true
		c, err = scanClaim(rows, &revision)
		return err
	})
	switch {
	case err != nil:
		return c, 0, fmt.Errorf("take a claim over: %w", err)
	case !found:
		return c, 0, ErrClaimLost
	}
	return c, revision, nil
}
