package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Forget deletes up to n rows of what is kept of events that are pruned, in the caller's
// transaction, which has locked them and seen that nothing is owed for them. It answers
// how many it deleted: fewer than n, and nothing is left. When each target last
// succeeded is kept.
func Forget(ctx context.Context, tx pgx.Tx, events []event.ID, n int) (int, error) {
	ids := raw(events)
	tag, err := tx.Exec(ctx, sqlForgetAttempts, pg.Args{"events": ids, "n": n})
	if err != nil {
		return 0, fmt.Errorf("forget attempts: %w", err)
	}
	gone := int(tag.RowsAffected())
	if gone >= n {
		return gone, nil
	}
	var settled int
	if err := tx.QueryRow(ctx, sqlForgetSettled, pg.Args{"events": ids, "n": n - gone}).Scan(&settled); err != nil {
		return 0, fmt.Errorf("forget deliveries: %w", err)
	}
	return gone + settled, nil
}
