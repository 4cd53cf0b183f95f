package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Stranded is what is owed to a receiver that is gone.
type Stranded struct {
	Receiver string
	Owed     int64
}

// OwedToGone is what is owed, claimed or not, to receivers that are gone. A relay of the
// default lane orphans it.
func (l *Ledger) OwedToGone(ctx context.Context) ([]Stranded, error) {
	rows, err := l.pool.Query(ctx, sqlOwedToGone)
	if err != nil {
		return nil, fmt.Errorf("look for what is owed to nobody: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Stranded])
	if err != nil {
		return nil, fmt.Errorf("look for what is owed to nobody: %w", err)
	}
	return list, nil
}
