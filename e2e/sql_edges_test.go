package e2e

import (
	"strings"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// What a caller's session is set to does not loosen what an event must be.
func TestSQLRefusesTheSameInASessionOfAnySetting(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, pgtest.URL(t))
	for _, call := range []string{`('a b', '1')`, `('a.B', '1')`, `('a', '1', key => 'a b')`, `('a', '1', subject => chr(7))`} {
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SET LOCAL standard_conforming_strings = off; SET LOCAL backslash_quote = on; SET LOCAL search_path = pg_temp, public`); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT eventsvc.fire`+call); sqlState(err) != "EV422" {
			t.Errorf("%s: %v", call, err)
		}
		tx.Rollback(t.Context())
	}
}

func TestAnEmptyTextInSQLIsNoneAndAChainIsInherited(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	db := pgtest.Open(t, url)
	cause := fired(t, db, `SELECT eventsvc.fire('a', '1', key => 'k', tenant => '', correlation_id => '', traceparent => E'no\ntrace')`)
	follows := fired(t, db, `SELECT eventsvc.fire('a', '2', causation_id => $1)`, cause)
	if a := p.call(t, "GET", "/v1/events/"+follows, ""); a.at("event.correlation_id") != cause {
		t.Errorf("the chain of what follows %s: %s", cause, a.text)
	}
	if again := fired(t, db, `SELECT eventsvc.fire('a', '1', key => 'k')`); again != cause {
		t.Errorf("again: %s, want %s", again, cause)
	}
	var odd int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM eventsvc.events WHERE '' IN (tenant, correlation_id) OR traceparent IS NOT NULL`).Scan(&odd); err != nil || odd != 0 {
		t.Errorf("%d events with an empty text, or a trace that is none, %v", odd, err)
	}
}

// A repeat is known by all that the first one said, and still once that is pruned.
func TestAKeyInSQLIsKnownAfterItsEventIsPruned(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, pgtest.URL(t))
	const call = `SELECT eventsvc.fire('a', '{"n": 1}', key => 'k', correlation_id => 'one', actor => '{"key":"u"}', occurred_at => '2026-01-01Z')`
	first := fired(t, db, call)
	other := strings.Replace(call, "'one'", "'two'", 1)
	if _, err := db.Exec(t.Context(), other); sqlState(err) != "EV409" {
		t.Errorf("another chain under the key: %v", err)
	}
	if again := fired(t, db, strings.Replace(call, `{"n": 1}`, `{"n":1}`, 1)); again != first {
		t.Errorf("in other bytes: %s, want %s", again, first)
	}
	if _, err := db.Exec(t.Context(), `DELETE FROM eventsvc.unmatched; DELETE FROM eventsvc.events`); err != nil {
		t.Fatal(err)
	}
	if again := fired(t, db, call); again != first {
		t.Errorf("once it is pruned: %s, want %s", again, first)
	}
	if _, err := db.Exec(t.Context(), other); sqlState(err) != "EV409" {
		t.Errorf("another chain under the key, once it is pruned: %v", err)
	}
}
