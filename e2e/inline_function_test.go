package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// guarded is a service with an inline function, which writes the event's id and
// spoils its session, and then does what the event's data says.
func guarded(t testing.TB) (*process, *pgxpool.Pool) {
	t.Helper()
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	for _, sql := range []string{`CREATE SCHEMA app`, `CREATE TABLE app.seen (id text, n int, path text)`, `CREATE SEQUENCE app.runs`, `CREATE TABLE app.late (n int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)`,
		`CREATE FUNCTION app.guard(event jsonb, context jsonb) RETURNS void LANGUAGE plpgsql AS $f$
			BEGIN
				PERFORM nextval('app.runs');
				INSERT INTO app.seen VALUES (event ->> 'id', (event #>> '{data,n}')::int, current_setting('search_path'));
				PERFORM set_config('statement_timeout', '7777ms', false), set_config('search_path', 'app', false);
				CASE event #>> '{data,does}'
				WHEN 'refuse' THEN RAISE EXCEPTION E'out of\nstock' USING DETAIL = 'private', ERRCODE = '23514';
				WHEN 'permanent' THEN PERFORM eventsvc.permanent('the account is closed');
				WHEN 'break' THEN INSERT INTO app.private VALUES (1);
				WHEN 'late' THEN INSERT INTO app.late VALUES (1), (1);
				WHEN 'hang' THEN PERFORM pg_sleep(60);
				WHEN 'stubborn' THEN BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(60); END;
				WHEN 'die' THEN PERFORM pg_terminate_backend(pg_backend_pid());
				WHEN 'deadlock' THEN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected';
				WHEN 'wait' THEN PERFORM pg_advisory_xact_lock(4711);
				ELSE NULL;
				END CASE;
			END $f$`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, url, append([]string{"EVENTSVC_FUNCTION_CONNS=3"}, calls...), "serve")
	if a := p.declare(t, "guard", `{"events":["a.*"],"function":"app.guard","mode":"inline","timeout":"1s","filter":"event.data.n > 0"}`); a.at("mode") != "inline" || a.at("function") != "app.guard" {
		t.Errorf("shown as %s", a.text)
	}
	return p, db
}

func (p *process) post(t testing.TB, path, key, body string) answer {
	t.Helper()
	return p.call(t, "POST", path, body, "Idempotency-Key", key)
}

// kept fails unless just so many events are stored, and each that the function saw with
// what it wrote.
func kept(t testing.TB, db *pgxpool.Pool, what string, events, seen int) {
	t.Helper()
	if n := count(t, db, `SELECT count(*) FROM eventsvc.events`); n != events {
		t.Errorf("%s: %d events, want %d", what, n, events)
	}
	if n := count(t, db, `SELECT count(*) FROM app.seen`); n != seen {
		t.Errorf("%s: the function's writes are %d, want %d", what, n, seen)
	}
	if n := count(t, db, `SELECT count(*) FROM app.seen WHERE path = 'app'`); n != 0 {
		t.Errorf("%s: %d calls met settings of an earlier one", what, n)
	}
}

func refusedBy(t testing.TB, what string, a answer, why string) {
	t.Helper()
	if a.status != 409 || a.at("code") != "vetoed" || !strings.Contains(a.at("detail"), "receiver guard") || !strings.Contains(a.at("detail"), why) || strings.Contains(a.text, "private") {
		t.Errorf("%s: %d %s", what, a.status, a.text)
	}
}

func TestAnInlineFunctionsWritesExistIfTheEventDoes(t *testing.T) {
	t.Parallel()
	p, db := guarded(t)
	for does, why := range map[string]string{
		"refuse": "out of stock", "permanent": "the account is closed", "break": "it failed (sql:42P01)", "late": "it failed (sql:23505)",
		"hang": "within its timeout", "stubborn": "within its timeout",
	} {
		refusedBy(t, does, p.post(t, "/v1/events", "k", `{"type":"a.b","data":{"n":1,"does":"`+does+`"}}`), why)
		kept(t, db, does, 0, 0)
	}
	for _, does := range []string{"die", "deadlock"} { // this is no say of the function's
		if a := p.post(t, "/v1/events", "k", `{"type":"a.b","data":{"n":1,"does":"`+does+`"}}`); a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", does, a.status, a.text)
		}
		if a := p.post(t, "/v1/transactions", "k", `{"events":[{"type":"a.b","data":{"n":1,"does":"`+does+`"}}]}`); a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("%s, in a transaction: %d %s", does, a.status, a.text)
		}
		kept(t, db, does, 0, 0)
	}
	if n := count(t, db, `SELECT count(*) FROM eventsvc.fire_keys`); n != 0 {
		t.Errorf("%d keys are spent", n)
	}
	if n := count(t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%app"."guard%' AND state = 'active' AND pid <> pg_backend_pid()`); n != 0 {
		t.Errorf("%d calls go on", n)
	}

	// The key is free, and once it is spent the function is not called again.
	a := p.fire(t, "k", `{"type":"a.b","data":{"n":1}}`)
	kept(t, db, "agreed", 1, 1)
	if n := count(t, db, `SELECT count(*) FROM app.seen WHERE id = '`+a.at("event.id")+`'`); n != 1 {
		t.Errorf("the function was told of another event than %s", a.text)
	}
	runs := count(t, db, `SELECT last_value FROM app.runs`)
	if again := p.post(t, "/v1/events", "k", `{"type":"a.b","data":{"n":1}}`); again.at("event.id") != a.at("event.id") || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %d %s", again.status, again.text)
	}
	p.fire(t, "unwanted", `{"type":"a.b","data":{"n":0}}`)
	p.fire(t, "suppressed", `{"type":"a.b","data":{"n":1},"suppress":{"reason":"import"}}`)
	if a := p.call(t, "POST", "/v1/events/"+a.at("event.id")+"/replay", ""); a.status != 200 {
		t.Errorf("replay: %d %s", a.status, a.text)
	}
	if n := count(t, db, `SELECT last_value FROM app.runs`); n != runs {
		t.Errorf("called %d times more", n-runs)
	}
	kept(t, db, "not asked", 3, 1)

	p.call(t, "POST", "/v1/receivers/guard/pause", "")
	refusedBy(t, "paused", p.post(t, "/v1/events", "paused", `{"type":"a.b","data":{"n":1}}`), "it is paused")
	p.call(t, "POST", "/v1/receivers/guard/resume", "")

	// Whether a filter is met cannot be told in SQL.
	if _, err := db.Exec(t.Context(), `SELECT eventsvc.fire('a.b', '{"n":1}', key => 'sql')`); sqlState(err) != "EV409" || !strings.Contains(err.Error(), "receiver guard did not agree: whether its filter") {
		t.Errorf("in SQL: %v", err)
	}
	kept(t, db, "SQL", 3, 1)
}

func TestAnInlineFunctionHasASayAboutEventsTogetherWhenTheyArePrepared(t *testing.T) {
	t.Parallel()
	p, db := guarded(t)
	told := open(t, nil)
	p.declare(t, "r", `{"events":["a.*"],"url":"`+told.URL+`"}`)
	const fine, bad = `{"type":"a.b","data":{"n":1}}`, `{"type":"a.b","data":{"n":2,"does":"refuse"}}`
	a := p.post(t, "/v1/transactions", "t", `{"events":[`+fine+`,`+bad+`]}`)
	refusedBy(t, "together", a, "out of stock")
	refusedBy(t, "together", a, "events/1")
	kept(t, db, "together", 0, 0)
	if a := p.post(t, "/v1/transactions", "t", `{"events":[`+fine+`,`+fine+`]}`); a.status != 201 {
		t.Errorf("together: %d %s", a.status, a.text)
	}
	kept(t, db, "together", 2, 2)
	told.next(t)
	told.next(t)

	held := func(events string) string {
		return `{"prepare":true,"check":{"url":"` + told.URL + `/check","secret":"` + checkSecret + `"},"events":[` + events + `]}`
	}
	refusedBy(t, "prepare", p.post(t, "/v1/transactions", "p", held(bad)), "out of stock")
	kept(t, db, "prepare, vetoed", 2, 2)
	if n := count(t, db, `SELECT count(*) FROM eventsvc.transactions WHERE state = 'prepared'`); n != 0 {
		t.Errorf("%d are prepared", n)
	}
	a = p.post(t, "/v1/transactions", "p", held(fine))
	kept(t, db, "prepared", 2, 3)
	runs := count(t, db, `SELECT last_value FROM app.runs`)
	if again := p.post(t, "/v1/transactions", "p", held(fine)); again.at("transaction.id") != a.at("transaction.id") {
		t.Errorf("again: %s", again.text)
	}
	if a = p.call(t, "POST", "/v1/transactions/"+a.at("transaction.id")+"/commit", ""); a.status != 200 {
		t.Errorf("commit: %d %s", a.status, a.text)
	}
	kept(t, db, "committed", 3, 3)
	if n := count(t, db, `SELECT last_value FROM app.runs`); n != runs {
		t.Errorf("called %d times more", n-runs)
	}
	a = p.call(t, "POST", "/v1/events/bulk", `[{"type":"a.b","data":{"n":1,"does":"refuse"},"idempotency_key":"b1"},{"type":"a.b","data":{"n":1},"idempotency_key":"b2"}]`)
	if !strings.Contains(a.text, "vetoed") {
		t.Errorf("bulk: %d %s", a.status, a.text)
	}
	kept(t, db, "bulk", 4, 4)
}

// While a function waits, and when it refuses, others' events are stored as ever, and so
// are declarations.
func TestAnInlineFunctionHoldsNobodyElseUp(t *testing.T) {
	t.Parallel()
	p, db := guarded(t)
	p.call(t, "PATCH", "/v1/receivers/guard", `{"timeout":"10s"}`, "Content-Type", "application/merge-patch+json")
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(4711)`); err != nil {
		t.Fatal(err)
	}
	waits := make(chan answer, 2) // as many as there are flushers
	for _, key := range []string{"w1", "w2"} {
		go func() { waits <- p.post(t, "/v1/events", key, `{"type":"a.b","data":{"n":1,"does":"wait"}}`) }()
	}
	eventually(t, func() bool {
		return count(t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`) == 2
	},
		func() string { return "the function was never called" })
	began := time.Now()
	p.fire(t, "o1", `{"type":"a.b","data":{"n":0}}`)
	p.fire(t, "o2", `{"type":"c.d","data":{}}`)
	refusedBy(t, "beside it", p.post(t, "/v1/events", "o3", `{"type":"a.b","data":{"n":1,"does":"refuse"}}`), "out of stock")
	p.declare(t, "other", `{"events":["z.z"],"url":"http://127.0.0.1:1/"}`)
	if a := p.call(t, "DELETE", "/v1/receivers/other", ""); a.status >= 300 {
		t.Errorf("a removal: %d %s", a.status, a.text)
	}
	p.fire(t, "o4", `{"type":"c.d","data":{}}`)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("others waited for %s", took)
	}
	select {
	case a := <-waits:
		t.Fatalf("it did not wait: %d %s", a.status, a.text)
	default:
	}
	kept(t, db, "meanwhile", 3, 0)
	tx.Rollback(t.Context())
	for range 2 {
		if a := <-waits; a.status != 201 {
			t.Errorf("at last: %d %s", a.status, a.text)
		}
	}
	kept(t, db, "at last", 5, 2)
}
