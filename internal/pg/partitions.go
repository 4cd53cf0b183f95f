package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PartitionsAhead is for how long there are always partitions to write to.
const PartitionsAhead = 35 * 24 * time.Hour

// MakePartitions makes those that are missing between a week ago and PartitionsAhead.
// Processes may race; a lock that is not to be had soon is given up, as there are weeks
// to try again.
func MakePartitions(ctx context.Context, pool *pgxpool.Pool) (made int, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '200ms'`); err != nil {
			return err
		}
		// One maker at a time; whoever comes second finds them made.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock+1)); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT eventsvc.make_partitions(now() - interval '7 days', now() + $1)`, PartitionsAhead).Scan(&made)
	})
	if err != nil {
		return 0, fmt.Errorf("make partitions: %w", err)
	}
	return made, nil
}
