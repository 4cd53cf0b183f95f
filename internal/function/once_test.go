package function_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// end ends the caller's sessions on the server.
func (h *house) end(t *testing.T) {
	t.Helper()
	h.exec(t, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'eventsvc/function' AND datname = current_database()`)
}

// lapse ends the lease of whatever is claimed.
func (h *house) lapse(t *testing.T) {
	t.Helper()
	h.exec(t, `UPDATE eventsvc.owed SET lease_until = now() - interval '1 second' WHERE claimed_by <> 0`)
}

// The session dies at each step between the claim and the commit, and is known to have, or
// not. What the function wrote is there once when the delivery has succeeded.
func TestAFunctionIsEffectivelyOnceWhateverDiesWhen(t *testing.T) {
	var beside sync.WaitGroup // what a case does while the function is called
	for name, c := range map[string]struct {
		body    string
		before  func(*testing.T, *house, *pgtest.Wire)
		between func(*testing.T, *house)
		known   bool        // the first attempt knows that it failed
		class   event.Class // as what
		settled bool        // the first attempt is committed, though it does not know
	}{
		"before the call": {before: func(t *testing.T, h *house, _ *pgtest.Wire) { h.end(t) }, known: true, class: "sql:57P01"},
		"in the function": {body: `IF nextval('app.runs') = 1 THEN PERFORM pg_sleep(60); END IF;`, known: true, class: "sql:57P01",
			before: func(t *testing.T, h *house, _ *pgtest.Wire) {
				beside.Go(func() {
					await(t, func() bool {
						var n int
						err := h.pool.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'eventsvc/function' AND wait_event = 'PgSleep' AND datname = current_database()`).Scan(&n)
						return err == nil && n == 1
					})
					h.end(t)
				})
			}},
		"after the function": {between: func(t *testing.T, h *house) { h.end(t) }, known: true, class: "sql:57P01"},
		"while it is recorded": {known: true, class: "sql:57P01", before: func(t *testing.T, h *house, _ *pgtest.Wire) {
			h.exec(t, `CREATE FUNCTION app.trap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF nextval(''app.runs'') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END';
				CREATE TRIGGER trap AFTER INSERT ON eventsvc.settled FOR EACH ROW EXECUTE FUNCTION app.trap()`)
		}},
		"before the commit arrives":   {before: func(_ *testing.T, _ *house, w *pgtest.Wire) { w.Snip("commit\x00", false) }},
		"after the commit took place": {before: func(_ *testing.T, _ *house, w *pgtest.Wire) { w.Snip("commit\x00", true) }, settled: true},
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.URL(t)
			wire := pgtest.StartWire(t, url)
			h := open(t, url, wire.URL())
			h.to.Receiver.Timeout = 20 * time.Second
			h.exec(t, `CREATE SEQUENCE app.runs`)
			h.body(t, c.body)
			claim := h.owe(t, `{}`)
			call := h.take(t, claim)
			if c.before != nil {
				c.before(t, h, wire)
			}
			v := call.Make(t.Context())
			beside.Wait()
			recorded := false
			if c.between != nil {
				c.between(t, h)
			}
			if v.Ruling == event.Success {
				var instead *event.Verdict
				if recorded, instead = call.Acknowledge(t.Context(), h.worker, success(claim)); instead != nil {
					v = *instead
				}
			}
			call.End()
			if recorded || (v.Ruling == event.Failure) != c.known || v.Class != c.class {
				t.Errorf("the first attempt: %+v, recorded %v", v, recorded)
			}
			if c.settled {
				await(t, func() bool { return h.status(t, claim) == event.Succeeded })
				h.wants(t, claim, event.Succeeded, 1)
				return
			}
			h.wants(t, claim, event.Claimed, 0)
			h.lapse(t)
			second := h.claim(t)
			call = h.take(t, second)
			if v := call.Make(t.Context()); v.Ruling != event.Success {
				t.Fatalf("the second attempt: %+v", v)
			}
			if recorded, instead := call.Acknowledge(t.Context(), h.worker, success(second)); !recorded {
				t.Fatalf("the second attempt: %+v", instead)
			}
			h.wants(t, claim, event.Succeeded, 1)
		})
	}
}

// P5: one that was overtaken finds its fence lost and takes everything back.
func TestAnAttemptThatWasOvertakenWritesNothing(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	h.body(t, ``)
	first := h.owe(t, `{}`)
	slow := h.take(t, first)
	if v := slow.Make(t.Context()); v.Ruling != event.Success {
		t.Fatalf("got %+v", v)
	}
	h.lapse(t)
	second := h.claim(t)
	recorded, _, err := h.ledger.Record(t.Context(), h.worker, []ledger.Entry{success(second)})
	if err != nil || !recorded[0] {
		t.Fatalf("the second: %v, %v", recorded, err)
	}
	if recorded, instead := slow.Acknowledge(t.Context(), h.worker, success(first)); recorded || instead != nil {
		t.Errorf("the first: %v, %+v", recorded, instead)
	}
	slow.End()
	h.wants(t, first, event.Succeeded, 0)
}
