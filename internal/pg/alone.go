package pg

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Alone runs a task unless another process runs it at this moment; then it does
// nothing. The lock belongs to a transaction, which stays open and idle meanwhile: it
// holds behind a transaction pooler too, no snapshot is kept by it, and it cannot
// outlive the process.
func Alone(ctx context.Context, pool *pgxpool.Pool, task string, do func(context.Context) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var got bool
		// The transaction is idle for as long as the task runs, which is meant.
		if _, err := tx.Exec(ctx, `SELECT set_config('idle_in_transaction_session_timeout', '0', true)`); err != nil {
			return fmt.Errorf("prepare to run %s alone: %w", task, err)
		}
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, taskNumber(task)).Scan(&got); err != nil {
			return fmt.Errorf("lock %s: %w", task, err)
		}
		if !got {
			return nil
		}
		return do(ctx)
	})
}

func taskNumber(task string) int64 {
	h := fnv.New64a()
	h.Write([]byte("eventsvc " + task))
	return int64(h.Sum64())
}
