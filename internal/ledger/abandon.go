package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Abandon ends what targets are owed as Orphaned or Cancelled, in the caller's
// transaction. It answers how many rows a live claim still holds: they are left to
// their attempt.
func Abandon(ctx context.Context, tx pgx.Tx, targets []event.TargetID, as event.Status) (ended, held int, err error) {
	args := pgx.NamedArgs{"targets": numbers(targets), "status": string(as)}
	if err := tx.QueryRow(ctx, sqlAbandon, args).Scan(&ended, &held); err != nil {
		return 0, 0, fmt.Errorf("abandon what is owed: %w", err)
	}
	return ended, held, nil
}

// CountOwed is how much targets are still owed, seen by the caller's transaction.
func CountOwed(ctx context.Context, tx pgx.Tx, targets []event.TargetID) (n int, err error) {
	if err := tx.QueryRow(ctx, sqlCountOwed, pgx.NamedArgs{"targets": numbers(targets)}).Scan(&n); err != nil {
		return 0, fmt.Errorf("count what is owed: %w", err)
	}
	return n, nil
}

func numbers(targets []event.TargetID) []int32 {
	ids := make([]int32, len(targets))
	for i, t := range targets {
		ids[i] = int32(t)
	}
	return ids
}
