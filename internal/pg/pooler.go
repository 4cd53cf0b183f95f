package pg

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// passage is what a pool has found between itself and its server: nothing, or a pooler
// (PgBouncer and its kin), which may run each transaction on another of the server's
// connections. What one of them has prepared, the next does not know or has already
// under the same name, so behind a pooler statements are described once and then parsed
// anew each time, without a name.
type passage struct {
	found atomic.Int32 // unseen, direct or pooled
	// given: the URL says by default_query_exec_mode how statements are to be sent.
	given bool
}

const (
	unseen int32 = iota
	direct
	pooled // stays: it is right for a server too, only slower
)

// errPoolerAppeared refuses a connection that was made for a server and met a pooler.
var errPoolerAppeared = errors.New("a pooler has come between the pool and its server; the next connection is made for it")

// choose says how the connection that is about to be made sends its statements. The
// first time, it makes another one before, to look.
func (p *passage) choose(ctx context.Context, c *pgx.ConnConfig) error {
	if p.given {
		return nil
	}
	if p.found.Load() == unseen {
		conn, err := pgconn.ConnectConfig(ctx, c.Config.Copy())
		if err != nil {
			return err
		}
		conn.Close(ctx)
	}
	if p.found.Load() == pooled {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return nil
}

// look finds out whom a new connection leads to: a pooler tells clients a process
// number of its own making, which is not that of the server's process behind it.
func (p *passage) look(ctx context.Context, conn *pgconn.PgConn) error {
	if p.given {
		return nil
	}
	results, err := conn.Exec(ctx, `SELECT pg_backend_pid()`).ReadAll()
	if err != nil {
		return err
	}
	behind, err := strconv.ParseUint(string(results[0].Rows[0][0]), 10, 32)
	if err != nil {
		return err
	}
	if uint32(behind) == conn.PID() {
		p.found.CompareAndSwap(unseen, direct)
		return nil
	}
	if p.found.Swap(pooled) == direct {
		return errPoolerAppeared
	}
	return nil
}

// givenMode reports whether a URL says how statements are to be sent.
func givenMode(url string) bool { return strings.Contains(url, "default_query_exec_mode") }
