package fire

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Reseal stores the secrets of checks that can still be asked as the newest key seals them,
// all or none, and answers how many there were. Those of decided transactions are asked for
// no more.
func (d *Desk) Reseal(ctx context.Context) (n int, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		type stored struct {
			ID     [16]byte
			Sealed []byte `db:"check_secret"`
		}
		rows, err := tx.Query(ctx, sqlOpenChecks)
		if err != nil {
			return fmt.Errorf("read the secrets of checks: %w", err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowToStructByName[stored])
		if err != nil {
			return fmt.Errorf("read the secrets of checks: %w", err)
		}
		for _, s := range all {
			if d.sealer.Newest(s.Sealed) {
				continue
			}
			secret, err := d.sealer.OpenCheck(s.ID, s.Sealed)
			if err != nil {
				return fmt.Errorf("open the secret of %s: %w", event.ID(s.ID).Text(event.TxPrefix), err)
			}
			if _, err := tx.Exec(ctx, sqlResealCheck, pg.Args{"id": s.ID, "sealed": d.sealer.SealCheck(s.ID, secret)}); err != nil {
				return fmt.Errorf("seal the secret of a check anew: %w", err)
			}
			n++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
