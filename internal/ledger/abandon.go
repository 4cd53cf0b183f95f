package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// abandonChunk is how many deliveries one transaction of an Abandon ends.
const abandonChunk = 5000

// Abandon ends what targets are owed as Orphaned or Cancelled, a chunk at a time, and
// answers how many it ended. What a live claim holds is left to its attempt, and what
// another transaction holds to whoever claims next: the targets are to be deleted
// before, so that it is orphaned then.
func (l *Ledger) Abandon(ctx context.Context, targets []event.TargetID, as event.Status) (ended int, err error) {
	for {
		var n int
		err := l.inTurn(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, sqlAbandon, pg.Args{"targets": numbers(targets), "status": string(as), "n": abandonChunk}).Scan(&n)
		})
		if err != nil {
			return ended, fmt.Errorf("abandon what is owed: %w", err)
		}
		if ended += n; n < abandonChunk {
			return ended, nil
		}
	}
}

// CountOwed is how much targets are still owed, seen by the caller's transaction.
func CountOwed(ctx context.Context, tx pgx.Tx, targets []event.TargetID) (n int, err error) {
	if err := tx.QueryRow(ctx, sqlCountOwed, pg.Args{"targets": numbers(targets)}).Scan(&n); err != nil {
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
