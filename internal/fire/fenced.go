package fire

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// fenced is [ledger.InTurn] for what owes something: a removal that decides by what is owed
// comes before it or after it, see [pg.FenceSharedSQL].
func (d *Desk) fenced(ctx context.Context, do func(tx pgx.Tx) error) error {
	return ledger.InTurn(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, pg.FenceSharedSQL); err != nil {
			return fmt.Errorf("wait for a removal under way: %w", err)
		}
		return do(tx)
	})
}
