package function

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Caller calls functions. It is safe for concurrent use.
type Caller struct {
	pool, aside *pgxpool.Pool
	log         *slog.Logger
}

// New makes a caller over a pool that nothing else uses, opened as pg.PoolOptions.Foreign.
// Aside is another, from which calls that do not end are ended: they may have taken all of
// the first.
func New(pool, aside *pgxpool.Pool, log *slog.Logger) *Caller { return &Caller{pool, aside, log} }

// Bounds beside the receiver's own timeout.
const (
	reconnectPause   = 500 * time.Millisecond
	acknowledgeTime  = 5 * time.Second
	cleanUpTime      = 2 * time.Second
	idleInAttempt    = event.LeaseMargin // a process that was stopped holds the function's locks no longer
	timeoutMargin    = 10                // the statement ends a tenth before the attempt
	maxTimeoutMargin = time.Second
)

// Take has a connection for one call of the claim's function, as soon as there is one. Its
// error is that there was none until the context ended. The call must be ended.
func (c *Caller) Take(ctx context.Context, claim *event.Claim) (*Call, error) {
	conn, err := c.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for a connection to call %s on: %w", claim.To.Receiver.Function, err)
	}
	return &Call{caller: c, claim: claim, conn: conn, clean: true}, nil
}

// acquire waits for a connection, over failures too, until the context ends.
func (c *Caller) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for {
		conn, err := c.pool.Acquire(ctx)
		if err == nil {
			return conn, nil
		}
		select {
		case <-time.After(reconnectPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// bound is the statement timeout of a call, which ends before the attempt does.
func bound(timeout time.Duration) time.Duration {
	return max(timeout-min(timeout/timeoutMargin, maxTimeoutMargin), time.Millisecond)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", max(d.Milliseconds(), 1)) }

// statement is the call of a function of that name, which was checked when declared. Its
// result is not asked for: it may be of any type and size.
func statement(function string) string {
	return `SELECT ` + pgx.Identifier(strings.Split(function, ".")).Sanitize() + `($1::jsonb, $2::jsonb) IS NULL`
}

// terminate ends a session that still runs a call: a function can catch its cancellation
// and go on, but not this.
func (c *Caller) terminate(pid int32, started time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	if _, err := c.aside.Exec(ctx, sqlTerminate, pg.Args{"pid": pid, "started": started}); err != nil {
		c.log.WarnContext(ctx, "a function that took too long could not be ended; it goes on, and nothing of it will be committed", "err", err)
	}
}
