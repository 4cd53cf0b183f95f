package pg_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// mode is how the pool's next connection sends statements.
func mode(t *testing.T, pool *pgxpool.Pool) pgx.QueryExecMode {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	return conn.Conn().Config().DefaultQueryExecMode
}

// T108, DB-02.
func TestStatementsNeverCollideBehindATransactionPooler(t *testing.T) {
	url := pgtest.URL(t)
	if m := mode(t, pgtest.Open(t, url)); m != pgx.QueryExecModeCacheStatement {
		t.Errorf("statements to a server itself are sent by %v", m)
	}
	pooler := pgtest.StartPooler(t, url)
	var all sync.WaitGroup
	for range 3 {
		pool := pgtest.Open(t, pooler.URL())
		for worker := range 8 {
			all.Go(func() {
				for n := range 40 {
					var got int
					sql := fmt.Sprintf(`SELECT $1::int + %d`, (n+worker)%10)
					if err := pool.QueryRow(t.Context(), sql, n).Scan(&got); err != nil || got != n+(n+worker)%10 {
						t.Errorf("got %d, %v", got, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

func TestAURLMaySayHowStatementsAreSent(t *testing.T) {
	pooler := pgtest.StartPooler(t, pgtest.URL(t))
	if m := mode(t, pgtest.Open(t, pooler.URL()+"&default_query_exec_mode=exec")); m != pgx.QueryExecModeExec {
		t.Errorf("sent by %v", m)
	}
}

func TestAPoolerThatAppearsBeforeARunningPoolIsNoticed(t *testing.T) {
	url := pgtest.URL(t)
	wire := pgtest.StartWire(t, url)
	pool := pgtest.Open(t, wire.URL())
	if m := mode(t, pool); m != pgx.QueryExecModeCacheStatement {
		t.Fatalf("sent by %v", m)
	}
	wire.Aim(t, pgtest.StartPooler(t, url).URL())
	wire.Cut()
	// What was open breaks, and the first new connection is refused for what it was made for.
	limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := pg.WaitReady(limited, pool); err != nil {
		t.Fatal(err)
	}
	if m := mode(t, pool); m != pgx.QueryExecModeCacheDescribe {
		t.Errorf("sent by %v", m)
	}
}

// Locks that belong to a session would go astray here, and the next migrator wait for
// ever.
func TestMigrationsLeaveNothingBehindInAPooler(t *testing.T) {
	direct := pgtest.Empty(t)
	url := pgtest.StartPooler(t, direct).URL()
	for range 2 {
		var all sync.WaitGroup
		for range 3 {
			pool := pgtest.Open(t, url)
			all.Go(func() {
				if err := pg.MigrateUp(t.Context(), pool, quiet); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := pg.MigrateDown(t.Context(), pgtest.Open(t, url), 1, quiet); err != nil {
			t.Error(err)
		}
	}
	if held := query(t, direct, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); held != 0 {
		t.Errorf("%d locks are still held", held)
	}
}
