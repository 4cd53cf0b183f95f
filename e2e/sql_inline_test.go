package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// Inline functions have their say in the caller's own transaction: what the caller, the
// function and the event write stand together or not at all.
func TestAnInlineFunctionIsCalledInTheTransactionThatFiresInSQL(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db, s := pgtest.Open(t, url), open(t, nil)
	for _, sql := range []string{
		`CREATE SCHEMA app`, `CREATE TABLE app.stock (n int CHECK (n >= 0))`, `INSERT INTO app.stock VALUES (3)`,
		`CREATE TABLE app.told (event jsonb, context jsonb, path text)`, `CREATE TABLE orders (n int)`, `GRANT ALL ON orders TO PUBLIC`,
		`CREATE FUNCTION app.reserve(event jsonb, context jsonb) RETURNS void LANGUAGE plpgsql AS $f$
			BEGIN
				INSERT INTO app.told VALUES (event, context, current_setting('search_path'));
				IF event #>> '{data,n}' = '100' THEN RAISE EXCEPTION 'at most 99 at once' USING DETAIL = 'private'; END IF;
				IF event #>> '{data,n}' = '40' THEN RAISE serialization_failure; END IF;
				UPDATE app.stock SET n = n - (event #>> '{data,n}')::int;
			END $f$`} {
		do(t, db, sql)
	}
	p := start(t, url, calls, "serve")
	p.declare(t, "stock", `{"events":["order.*"],"function":"app.reserve","mode":"inline"}`)
	p.declare(t, "acme", `{"events":["bill.*"],"function":"app.reserve","mode":"inline","tenant":"acme"}`)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`"}`)
	_, as := shopRole(t, db, url)
	fire := func(end, data string) (id string, err error) {
		tx, err := as.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		if _, err := tx.Exec(t.Context(), `CREATE TEMP TABLE stock (n int) ON COMMIT DROP; INSERT INTO orders VALUES (1)`); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow(t.Context(), `SELECT eventsvc.fire('order.placed', $1::text, key => $1::text, subject => 'order/1', actor => '{"key":"u1"}', occurred_at => '2026-01-02 03:04:05.5+00')`, data).Scan(&id); err != nil {
			return "", err
		}
		_, err = tx.Exec(t.Context(), end)
		return id, err
	}
	holds := func(what string, orders, stock, told, events int) {
		t.Helper()
		for sql, want := range map[string]int{`SELECT count(*) FROM orders`: orders, `SELECT n FROM app.stock`: stock, `SELECT count(*) FROM app.told`: told, `SELECT count(*) FROM eventsvc.events`: events, `SELECT count(*) FROM eventsvc.fire_keys`: events} {
			if n := count(t, db, sql); n != want {
				t.Errorf("%s: %s is %d, want %d", what, sql, n, want)
			}
		}
	}
	if _, err := fire("ROLLBACK", `{"n":1}`); err != nil {
		t.Error(err)
	}
	holds("rolled back", 0, 3, 0, 0)
	id, err := fire("COMMIT", `{"n":1}`)
	if err != nil {
		t.Fatal(err)
	}
	holds("committed", 1, 2, 1, 1)
	if again, err := fire("COMMIT", `{"n":1}`); err != nil || again != id {
		t.Errorf("again: %s, %v", again, err)
	}
	holds("again", 2, 2, 1, 1)
	for data, want := range map[string][2]string{
		`{"n":5}`: {"EV409", "receiver stock did not agree: it failed (sql:23514)"}, `{"n":100}`: {"EV409", "receiver stock did not agree: at most 99 at once"},
		`{"n":"\u0000"}`: {"EV409", "sql:22P05"}, `{"n":40}`: {"40001", ""},
	} {
		_, err := fire("COMMIT", data)
		if sqlState(err) != want[0] || !strings.Contains(err.Error(), want[1]) || strings.Contains(err.Error(), "private") {
			t.Errorf("%s: %v, want %v", data, err, want)
		}
	}
	holds("vetoed", 2, 2, 1, 1)
	if w := s.next(t); w.header.Get("Eventsvc-Event-Id") != id {
		t.Errorf("delivered %v", w.header)
	}

	// It is told what a POST would tell it.
	var event, context map[string]any
	var path string
	if err := db.QueryRow(t.Context(), `SELECT event, context, path FROM app.told`).Scan(&event, &context, &path); err != nil {
		t.Fatal(err)
	}
	p.fire(t, "posted", `{"type":"order.placed","data":{"n":1},"subject":"order/1","actor":{"key":"u1"},"occurred_at":"2026-01-02T03:04:05.5Z"}`)
	var postedEvent, postedContext map[string]any
	if err := db.QueryRow(t.Context(), `SELECT event, context FROM app.told WHERE event ->> 'id' <> $1`, id).Scan(&postedEvent, &postedContext); err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"id", "recorded_at", "correlation_id", "occurred_at"} {
		if event[own] == nil || postedEvent[own] == nil || own != "occurred_at" && event[own] == postedEvent[own] {
			t.Errorf("%s is %v, and in a POST %v", own, event[own], postedEvent[own])
		}
		delete(event, own)
		delete(postedEvent, own)
	}
	for _, own := range []string{"delivery_id", "webhook_id"} {
		delete(context, own)
		delete(postedContext, own)
	}
	one, _ := json.Marshal([]any{event, context})
	other, _ := json.Marshal([]any{postedEvent, postedContext})
	if string(one) != string(other) || path != `"$user", public, pg_temp` {
		t.Errorf("told %s with names from %s\nin a POST %s", one, path, other)
	}

	// Others' events, and those that are suppressed, are not its concern; paused, it cannot agree.
	for _, call := range []string{`'bill.sent', '{"n":100}'`, `'bill.sent', '{"n":100}', tenant => 'other'`, `'order.placed', '{"n":100}', suppress => 'a test'`, `'orders', '1'`, `'order', '1'`} {
		if _, err := as.Exec(t.Context(), `SELECT eventsvc.fire(`+call+`)`); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	if _, err := as.Exec(t.Context(), `SELECT eventsvc.fire('bill.sent', '{"n":100}', tenant => 'acme')`); sqlState(err) != "EV409" {
		t.Errorf("the tenant's own: %v", err)
	}
	p.call(t, "POST", "/v1/receivers/stock/pause", "")
	if _, err := as.Exec(t.Context(), `SELECT eventsvc.fire('order.placed', '{"n":1}')`); sqlState(err) != "EV409" || !strings.Contains(err.Error(), "it is paused") {
		t.Errorf("paused: %v", err)
	}
	eventually(t, func() bool { return p.call(t, "GET", "/v1/status", "").at("unmatched.waiting") == "0" }, func() string { return "not matched" })
	if a := p.call(t, "GET", "/v1/status", ""); a.at("unmatched.refused") != "0" {
		t.Errorf("refused when matched: %s", a.text)
	}
}
