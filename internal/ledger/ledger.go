package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Ledger reads and writes what is owed.
type Ledger struct {
	pool *pgxpool.Pool
}

// New makes a ledger over the pool.
func New(pool *pgxpool.Pool) *Ledger { return &Ledger{pool: pool} }

// lockWait bounds how long a hot statement waits for a row that another transaction
// holds.
const lockWait = 5 * time.Second

// Pin queues the settings under which the hot statements are planned, for the rest of
// the batch's transaction. They are set in the transaction, not on the connection, so
// that they hold behind a transaction pooler too.
func Pin(b *pgx.Batch, lockTimeout time.Duration) {
	b.Queue(sqlPin, pg.Args{"lock_timeout": fmt.Sprintf("%dms", lockTimeout.Milliseconds())})
}

// pinned runs one statement under [Pin], in one round trip, and scans each of its
// rows.
func (l *Ledger) pinned(ctx context.Context, sql string, args pg.Args, scan func(pgx.Rows) error) error {
	return pinnedIn(ctx, l.pool, sql, args, scan)
}

// sender is a pool, where the statement and its pins are a transaction of their own, or a
// transaction, for whose rest the pins then hold.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func pinnedIn(ctx context.Context, to sender, sql string, args pg.Args, scan func(pgx.Rows) error) error {
	var b pgx.Batch
	Pin(&b, lockWait)
	b.Queue(sql, args)
	results := to.SendBatch(ctx, &b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close()
	return results.Close()
}

// Enroll gives a worker process its number. The name is for people; it need not be
// unique.
func (l *Ledger) Enroll(ctx context.Context, name string) (event.WorkerID, error) {
	var id int32
	if err := l.pool.QueryRow(ctx, sqlEnroll, pg.Args{"name": name}).Scan(&id); err != nil {
		return 0, fmt.Errorf("enroll worker %s: %w", name, err)
	}
	return event.WorkerID(id), nil
}
