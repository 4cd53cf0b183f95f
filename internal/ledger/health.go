package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Heal counts a target's deaths anew, in the caller's transaction: one that is switched
// on again would otherwise be switched off by its next death.
func Heal(ctx context.Context, tx pgx.Tx, target event.TargetID) error {
	if _, err := tx.Exec(ctx, sqlHeal, pg.Args{"target": int32(target)}); err != nil {
		return fmt.Errorf("count a target's deaths anew: %w", err)
	}
	return nil
}

// DeadInARow is how many deliveries of each of these targets died since one last
// succeeded.
func (l *Ledger) DeadInARow(ctx context.Context, targets []event.TargetID) (map[event.TargetID]int, error) {
	rows, err := l.pool.Query(ctx, sqlHealthOf, pg.Args{"targets": numbers(targets)})
	if err != nil {
		return nil, fmt.Errorf("look up how targets fare: %w", err)
	}
	dead := map[event.TargetID]int{}
	var id, n int32
	if _, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error { dead[event.TargetID(id)] = int(n); return nil }); err != nil {
		return nil, fmt.Errorf("look up how targets fare: %w", err)
	}
	return dead, nil
}
