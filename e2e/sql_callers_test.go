package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// shopRole is a role that may fire and cancel, and a pool of its sessions.
func shopRole(t *testing.T, db *pgxpool.Pool, url string) (role string, as *pgxpool.Pool) {
	t.Helper()
	role = "shop_" + strings.ToLower(event.NewID(time.Now()).Text("x")[2:])
	for _, sql := range []string{`CREATE ROLE ` + role + ` LOGIN`, `SELECT eventsvc.allow('` + role + `')`} {
		do(t, db, sql)
	}
	t.Cleanup(func() {
		db.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role)
		db.Exec(context.WithoutCancel(t.Context()), `DROP ROLE `+role)
	})
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.User = role
	if as, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(as.Close)
	return role, as
}

func inside(t *testing.T, db *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// A caller's transaction may be of any isolation. A snapshot that is older than a key cannot
// tell what that was spent on: the database refuses to go on, as it does for any row of the
// caller's own, and the transaction is run again.
func TestATransactionOfAnyIsolationFires(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p, db, s := start(t, url, nil, "serve"), pgtest.Open(t, url), open(t, nil)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`"}`)
	_, as := shopRole(t, db, url)
	const same = `SELECT eventsvc.fire('order.placed', '1', key => $1)`
	for level, stale := range map[pgx.TxIsoLevel]string{pgx.ReadCommitted: "", pgx.RepeatableRead: "40001", pgx.Serializable: "40001"} {
		tx := inside(t, as, level)
		key := strings.ReplaceAll(string(level), " ", "-")
		var one int
		if err := tx.QueryRow(t.Context(), `SELECT 1`).Scan(&one); err != nil {
			t.Fatal(err)
		}
		// Others of the role fire after this snapshot; that is nothing to other keys.
		other := fired(t, as, same, key+"-other")
		id := fired(t, tx, same, key)
		if again := fired(t, tx, same, key); again != id {
			t.Errorf("%s: %s, and again %s", level, id, again)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Errorf("%s: %v", level, err)
		}
		want := map[string]bool{id: true, other: true}
		for range 2 {
			delete(want, s.next(t).header.Get("Eventsvc-Event-Id"))
		}
		if len(want) != 0 {
			t.Errorf("%s: not delivered: %v", level, want)
		}

		tx = inside(t, as, level)
		if err := tx.QueryRow(t.Context(), `SELECT 1`).Scan(&one); err != nil {
			t.Fatal(err)
		}
		first := fired(t, as, same, key+"-late")
		s.next(t) // once it is matched, nothing writes its key any more
		var late string
		err := tx.QueryRow(t.Context(), same, key+"-late").Scan(&late)
		if sqlState(err) != stale || stale == "" && late != first {
			t.Errorf("%s, with a key that is newer than its snapshot: %q, %v; want %q, %q", level, late, err, first, stale)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		tx = inside(t, as, level)
		if again := fired(t, tx, same, key+"-late"); again != first {
			t.Errorf("%s, run again: %s, want %s", level, again, first)
		}
	}
}

// The first fires of a role need not wait for each other.
func TestSessionsOfARoleFireForTheFirstTimeAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	_, as := shopRole(t, db, url)
	one, other := inside(t, as, pgx.RepeatableRead), inside(t, as, pgx.RepeatableRead)
	for _, tx := range []pgx.Tx{one, other} {
		if _, err := tx.Exec(t.Context(), `SET LOCAL lock_timeout = '5s'`); err != nil {
			t.Fatal(err)
		}
		fired(t, tx, `SELECT eventsvc.fire('order.placed', '1')`)
	}
	for _, tx := range []pgx.Tx{other, one} {
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Callers share few sessions of the server, which are another's after each transaction.
func TestCallersFireThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	const callers, each = 12, 15
	url := pgtest.URL(t)
	p, db, s := start(t, url, nil, "serve"), pgtest.Open(t, url), open(t, nil)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`"}`)
	do(t, db, `CREATE TABLE orders (n text)`)
	config, err := pgxpool.ParseConfig(pgtest.StartPooler(t, url).URL())
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode, config.MaxConns = pgx.QueryExecModeExec, callers
	pooled, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pooled.Close()
	work := func(key string, end func(pgx.Tx) error) error {
		tx, err := pooled.Begin(t.Context())
		if err != nil {
			return err
		}
		defer tx.Rollback(context.Background())
		for _, sql := range []string{`INSERT INTO orders VALUES ($1)`, `SELECT eventsvc.fire('order.placed', to_jsonb($1::text), key => $1::text)`} {
			if _, err := tx.Exec(t.Context(), sql, key); err != nil {
				return err
			}
		}
		return end(tx)
	}
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for n := range each {
				key := fmt.Sprint(c, "-", n)
				undone := func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }
				done := func(tx pgx.Tx) error { return tx.Commit(t.Context()) }
				if n%3 == 0 {
					if err := work(key+"!", undone); err != nil {
						t.Error(err)
					}
				}
				if err := work(key, done); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	seen := map[string]int{}
	for range callers * each {
		seen[string(s.next(t).body)]++
	}
	p.nothingOwed(t)
	events, rows := count(t, db, `SELECT count(*) FROM eventsvc.events`), count(t, db, `SELECT count(*) FROM orders`)
	if events != callers*each || rows != events || len(seen) != events || len(s.got) != 0 {
		t.Errorf("%d events of %d orders, %d told of and %d more requests; want %d each", events, rows, len(seen), len(s.got), callers*each)
	}
}
