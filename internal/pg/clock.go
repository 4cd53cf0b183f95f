package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Skew is by how much the database's clock is ahead of ours, to within half a round
// trip. All times in tables are the database's; ours is in signatures and in ids.
func Skew(ctx context.Context, pool *pgxpool.Pool) (time.Duration, error) {
	var theirs time.Time
	before := time.Now()
	if err := pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&theirs); err != nil {
		return 0, fmt.Errorf("read the database's clock: %w", err)
	}
	return theirs.Sub(before.Add(time.Since(before) / 2)), nil
}
