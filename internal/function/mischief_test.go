package function_test

import (
	"context"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/jackc/pgx/v5"
)

// mischief is what a function can do to its session.
var mischief = map[string]string{
	"settings":        `PERFORM set_config('search_path', 'evil', false), set_config('work_mem', '99MB', false), set_config('statement_timeout', '0', false), set_config('TimeZone', 'Asia/Tokyo', false);`,
	"local settings":  `PERFORM set_config('search_path', 'evil', true), set_config('default_transaction_read_only', 'on', false);`,
	"a role":          `SET ROLE pg_monitor;`,
	"an evil path":    `CREATE SCHEMA evil; CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''called with your rights''; END'; SET search_path = evil, pg_catalog;`,
	"session locks":   `PERFORM pg_advisory_lock(7), pg_advisory_lock_shared(8);`,
	"listening":       `LISTEN app_channel;`,
	"a temp table":    `CREATE TEMP TABLE owed (id int); CREATE TEMP TABLE left_behind (a int);`,
	"a cursor":        `EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT 1';`,
	"a prepared name": `EXECUTE 'PREPARE p AS SELECT 1';`,
	"no names at all": `EXECUTE 'DEALLOCATE ALL';`,
	"a sequence":      `CREATE SEQUENCE IF NOT EXISTS app.s; PERFORM nextval('app.s');`,
	"notices":         `FOR i IN 1..2000 LOOP RAISE NOTICE '%', repeat('x', 1000); END LOOP;`,
}

// F37: whatever a function does to its session, the row is right and the next call finds
// nothing of it.
func TestMischiefLeavesNothingBehind(t *testing.T) {
	url := pgtest.URL(t)
	for name, does := range mischief {
		for _, ending := range []string{"", "RAISE EXCEPTION 'and then fails';"} {
			t.Run(name+" "+ending, func(t *testing.T) {
				h := openAnew(t, url)
				h.body(t, does+ending)
				c, v, recorded := h.attempt(t, `{}`)
				want, effects := event.Success, 1
				if ending != "" {
					want, effects = event.Failure, 0
				}
				if v.Ruling != want || recorded != (ending == "") {
					t.Fatalf("got %+v, recorded %v", v, recorded)
				}
				if ending == "" {
					h.wants(t, c, event.Succeeded, effects)
				} else {
					h.wants(t, c, event.Claimed, effects)
				}
				h.body(t, ``)
				if _, v, recorded := h.attempt(t, `{}`); v.Ruling != event.Success || !recorded {
					t.Errorf("the next call: %+v, recorded %v", v, recorded)
				}
				h.isClean(t)
			})
		}
	}
}

// The same where it is called in a fire's transaction, which goes on with our own rights and
// settings after it.
func TestMischiefInAFiresTransactionLeavesNothingBehind(t *testing.T) {
	url := pgtest.URL(t)
	for name, does := range mischief {
		for _, ending := range []string{"", "RAISE EXCEPTION 'and then fails';"} {
			t.Run(name+" "+ending, func(t *testing.T) {
				h := openAnew(t, url)
				h.body(t, does+ending)
				i, err := h.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer i.End()
				v := i.Attempt(t.Context(), h.owe(t, `{}`))
				if (v.Ruling == event.Success) != (ending == "") {
					t.Fatalf("got %+v", v)
				}
				if ending == "" {
					const ours = "ours=true idle_in_transaction_session_timeout=5000 lock_timeout=0 search_path=pg_catalog statement_timeout=5000"
					if self := selfOf(t, i.Tx()); self != ours {
						t.Errorf("it goes on as %s, want %s", self, ours)
					}
					if err := i.Commit(t.Context()); err != nil {
						t.Error(err)
					}
				}
				i.End()
				h.isClean(t)
			})
		}
	}
}

// selfOf is whose rights a transaction has, and what is set in it.
func selfOf(t *testing.T, tx pgx.Tx) (self string) {
	t.Helper()
	if err := tx.QueryRow(t.Context(), `SELECT 'ours=' || (current_user = session_user) || ' ' || string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE source = 'session' AND name <> 'application_name' OR name IN ('search_path', 'lock_timeout', 'statement_timeout')`).Scan(&self); err != nil {
		t.Fatal(err)
	}
	return self
}

// openAnew is open on one database again and again.
func openAnew(t *testing.T, url string) *house {
	t.Helper()
	pool := pgtest.Open(t, url)
	if _, err := pool.Exec(t.Context(), `DROP SCHEMA IF EXISTS app CASCADE; DROP SCHEMA IF EXISTS evil CASCADE; DELETE FROM eventsvc.owed; DELETE FROM eventsvc.targets; DELETE FROM eventsvc.receivers`); err != nil {
		t.Fatal(err)
	}
	return open(t, url, "")
}

// Behind a pooler a closed connection ends no session of the server's: what a function did
// must be undone in its own transaction.
func TestMischiefLeavesNothingBehindAPooler(t *testing.T) {
	url := pgtest.URL(t)
	h := open(t, url, pgtest.StartPooler(t, url).URL())
	for name, does := range map[string]string{
		"settings":      `PERFORM set_config('search_path', 'evil', false), set_config('work_mem', '99MB', false);`,
		"session locks": `PERFORM pg_advisory_lock(7), pg_advisory_lock_shared(8);`,
		"listening":     `LISTEN app_channel;`,
		"a temp table":  `CREATE TEMP TABLE left_behind (a int);`,
		"a cursor":      `EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT 1';`,
	} {
		for ending, want := range map[string]event.Ruling{"": event.Success, "RAISE EXCEPTION 'and then fails';": event.Failure} {
			t.Run(name+" "+ending, func(t *testing.T) {
				h.body(t, does+ending)
				if _, v, recorded := h.attempt(t, `{}`); v.Ruling != want || recorded != (ending == "") {
					t.Errorf("got %+v, recorded %v", v, recorded)
				}
				h.isClean(t)
			})
		}
	}
}

// isClean asks the caller's one connection what is set, locked, open and known there. Its
// name is left out: a pooler sets that itself.
func (h *house) isClean(t *testing.T) {
	t.Helper()
	for what, sql := range map[string]string{
		"settings":   `SELECT count(*) FROM pg_settings WHERE setting IS DISTINCT FROM reset_val AND source = 'session' AND name <> 'application_name'`,
		"the path":   `SELECT (current_setting('search_path') <> '"$user", public')::int`,
		"a role":     `SELECT (current_user <> session_user)::int`,
		"locks":      `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`,
		"channels":   `SELECT count(*) FROM pg_listening_channels()`,
		"tables":     `SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND relkind = 'r'`,
		"cursors":    `SELECT count(*) FROM pg_cursors WHERE is_holdable`,
		"statements": `SELECT count(*) FROM pg_prepared_statements`,
	} {
		var n int
		if err := h.calls.QueryRow(t.Context(), sql).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d left, %v", what, n, err)
		}
	}
	var idle int
	if err := h.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'eventsvc/function' AND state <> 'idle'`).Scan(&idle); err != nil || idle != 0 {
		t.Errorf("%d sessions are busy, %v", idle, err)
	}
}

func TestAFunctionThatLoopsIsEnded(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	h.to.Receiver.Timeout = time.Second
	for name, does := range map[string]string{
		"sleeps":                       `PERFORM pg_sleep(60);`,
		"turns":                        `LOOP NULL; END LOOP;`,
		"lets itself have all day":     `PERFORM set_config('statement_timeout', '0', true); PERFORM pg_sleep(60);`,
		"goes on after it was stopped": `LOOP BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;`,
	} {
		t.Run(name, func(t *testing.T) {
			h.body(t, does)
			c, v, _ := h.attempt(t, `{}`)
			if v.Ruling != event.Failure || v.Class != event.ClassTimeout || v.Duration > 1500*time.Millisecond {
				t.Errorf("got %+v", v)
			}
			h.wants(t, c, event.Claimed, 0)
			await(t, func() bool {
				var n int
				err := h.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'eventsvc/function' AND state <> 'idle' AND datname = current_database()`).Scan(&n)
				return err == nil && n == 0
			})
		})
	}
}

// await asks until something holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(10 * time.Second); !holds(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it never holds")
		}
	}
}

func TestAFunctionThatWaitsForALockIsNotWaitedFor(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	h.exec(t, `CREATE TABLE app.held (a int); INSERT INTO app.held VALUES (1), (2)`)
	tx, err := h.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `UPDATE app.held SET a = a WHERE a = 1`); err != nil {
		t.Fatal(err)
	}
	h.body(t, `UPDATE app.held SET a = a WHERE a = 1;`)
	c, v, _ := h.attempt(t, `{}`)
	if v.Class != "sql:55P03" {
		t.Errorf("got %+v", v)
	}
	h.wants(t, c, event.Claimed, 0)
}

func TestOfTwoThatDeadlockOneIsAnOrdinaryFailure(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	h.to.Receiver.Timeout = 20 * time.Second
	h.exec(t, `CREATE TABLE app.held (a int); INSERT INTO app.held VALUES (1), (2)`)
	other, gate := h.begin(t), h.begin(t)
	if _, err := other.Exec(t.Context(), `SET LOCAL deadlock_timeout = '1min'; UPDATE app.held SET a = a WHERE a = 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Exec(t.Context(), `SELECT pg_advisory_xact_lock(1)`); err != nil {
		t.Fatal(err)
	}
	// The function has the second row, and asks for the first once the other waits for that:
	// who asks last looks for the deadlock, and the other does not look.
	h.body(t, `UPDATE app.held SET a = a WHERE a = 2; PERFORM pg_advisory_xact_lock(1); UPDATE app.held SET a = a WHERE a = 1;`)
	c := h.owe(t, `{}`)
	call := h.take(t, c)
	made, had := make(chan event.Verdict, 1), make(chan error, 1)
	go func() { made <- call.Make(context.Background()) }()
	h.awaitWaiting(t, "advisory")
	go func() {
		_, err := other.Exec(context.Background(), `UPDATE app.held SET a = a WHERE a = 2`)
		had <- err
	}()
	h.awaitWaiting(t, "transactionid")
	if err := gate.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := <-made; v.Class != "sql:40P01" || v.Ruling != event.Failure {
		t.Errorf("got %+v", v)
	}
	if err := <-had; err != nil {
		t.Errorf("the other: %v", err)
	}
	h.wants(t, c, event.Claimed, 0)
}

// begin opens a transaction that is rolled back when the test ends.
func (h *house) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := h.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// awaitWaiting returns once somebody waits for a lock of a kind.
func (h *house) awaitWaiting(t *testing.T, kind string) {
	t.Helper()
	await(t, func() bool {
		var waits bool
		err := h.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = $1)`, kind).Scan(&waits)
		return err == nil && waits
	})
}

// A function that takes its own claim away has nothing acknowledged, and so nothing
// written.
func TestAFunctionThatTouchesItsOwnRowLosesIt(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	h.body(t, `UPDATE eventsvc.owed SET claimed_by = 99;`)
	c, v, recorded := h.attempt(t, `{}`)
	if v.Ruling != event.Success || recorded {
		t.Errorf("got %+v, recorded %v", v, recorded)
	}
	h.wants(t, c, event.Claimed, 0)
}
