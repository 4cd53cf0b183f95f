package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// Drained is how deliveries ended during a drain, by status; those still owed are
// under "owed".
type Drained map[string]int

// Drain has everything that is owed delivered by the relays, to the end: begin makes them
// ready for it, once what ends is counted, and look is called whenever there is something
// for them to find. It skips backoff, so a failing receiver
// comes to its last attempt, but never a due time, unless it is at or before until. A
// delivery whose receiver says Retry-After ends its part; where that spends no attempt,
// what it would have paused is set aside as well. It is for tests.
func (l *Ledger) Drain(ctx context.Context, until time.Time, begin func() error, look func()) (Drained, error) {
	var since time.Time
	if err := l.pool.QueryRow(ctx, `SELECT now()`).Scan(&since); err != nil {
		return nil, fmt.Errorf("drain: %w", err)
	}
	if err := begin(); err != nil {
		return nil, err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		args := pg.Args{"since": since, "until": until}
		if _, err := l.pool.Exec(ctx, sqlHasten, args); err != nil {
			return nil, fmt.Errorf("drain: %w", err)
		}
		var left int64
		if err := l.pool.QueryRow(ctx, sqlUndrained, args).Scan(&left); err != nil {
			return nil, fmt.Errorf("drain: %w", err)
		}
		if left == 0 {
			return l.settledSince(ctx, since)
		}
		look()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("drain: %d deliveries are not at their end: %w", left, ctx.Err())
		}
	}
}

func (l *Ledger) settledSince(ctx context.Context, since time.Time) (Drained, error) {
	rows, err := l.pool.Query(ctx, sqlSettledSince, pg.Args{"since": since})
	if err != nil {
		return nil, fmt.Errorf("count what was drained: %w", err)
	}
	drained := Drained{}
	var status string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&status, &n}, func() error { drained[status] = n; return nil })
	if err != nil {
		return nil, fmt.Errorf("count what was drained: %w", err)
	}
	return drained, nil
}

// Erase forgets every delivery, in the caller's transaction. It is for tests.
func Erase(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, sqlErase); err != nil {
		return fmt.Errorf("erase deliveries: %w", err)
	}
	return nil
}
