package function_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestEveryStatementSuitsTheSchemaAndSaysWhatItDoes(t *testing.T) {
	pgtest.Statements(t, "function")
}

func TestAFunctionIsToldOfItsEventAndAttempt(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	h.exec(t, `CREATE TABLE app.told (event jsonb, context jsonb);
		CREATE FUNCTION app.f(event jsonb, context jsonb) RETURNS text LANGUAGE sql AS 'INSERT INTO app.told VALUES (event, context) RETURNING repeat(''x'', 10000000)'`)
	c, v, recorded := h.attempt(t, `{"n": 1e3, "a": "<&>"}`)
	if v.Ruling != event.Success || !recorded || h.status(t, c) != event.Succeeded {
		t.Fatalf("got %+v, %v, %s", v, recorded, h.status(t, c))
	}
	for path, want := range map[string]string{
		"event ->> 'id'": c.Event.ID.Text(event.EventPrefix), "event ->> 'type'": "a.b", "event #>> '{data,n}'": "1000", "event #>> '{data,a}'": "<&>",
		"event #>> '{actor,key}'": "u1", "event #>> '{metadata,a}'": "b", "event ->> 'correlation_id'": c.Event.ID.Text(event.EventPrefix),
		"context ->> 'delivery_id'": c.Delivery.Text(event.DeliveryPrefix), "context ->> 'receiver'": "k", "context ->> 'attempt'": "1",
		"context ->> 'max_attempts'": "3", "context ->> 'webhook_id'": c.Delivery.Text(event.DeliveryPrefix),
		"(event ->> 'recorded_at')::timestamptz = '" + c.Event.RecordedAt.Format(time.RFC3339Nano) + "'": "true",
		"(SELECT string_agg(k, ' ' ORDER BY k) FROM jsonb_object_keys(event) k)":                         "actor causation_id correlation_id data id metadata occurred_at recorded_at source subject tenant type",
		"(SELECT string_agg(k, ' ' ORDER BY k) FROM jsonb_object_keys(context) k)":                       "attempt delivery_id due_at max_attempts receiver webhook_id",
	} {
		var got string
		if err := h.pool.QueryRow(t.Context(), `SELECT (`+path+`)::text FROM app.told`).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", path, got, err, want)
		}
	}
}

// Each SQLSTATE of the contract keeps its meaning, and what the function wrote is gone.
func TestASQLSTATEIsAVerdict(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	raise := func(state, detail string) string {
		return `RAISE EXCEPTION USING ERRCODE = '` + state + `', MESSAGE = 'so it is', DETAIL = '` + detail + `';`
	}
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for name, c := range map[string]struct {
		does   string
		ruling event.Ruling
		class  event.Class
		reason string
	}{
		"permanent":           {`PERFORM eventsvc.permanent('the account is closed');`, event.Permanent, event.ClassPermanent, "the account is closed"},
		"permanent, bare":     {`PERFORM eventsvc.permanent(NULL);`, event.Permanent, event.ClassPermanent, "never again"},
		"permanent, raised":   {raise("EV410", ""), event.Permanent, event.ClassPermanent, "so it is"},
		"retry after":         {`PERFORM eventsvc.retry_after(7);`, event.RetryAfter, event.ClassRetryAfter, "after 7 s"},
		"retry after, free":   {`PERFORM eventsvc.retry_after(8, false);`, event.RetryAfter, event.ClassRetryAfter, "after 8 s"},
		"retry after, raised": {raise("EV429", `{"seconds":9}`), event.RetryAfter, event.ClassRetryAfter, "after 9 s"},
		"retry after, never":  {`PERFORM eventsvc.retry_after(NULL);`, event.Failure, "sql:EV429", "without a DETAIL such as"},
		"retry after, before": {`PERFORM eventsvc.retry_after(-1);`, event.Failure, "sql:EV429", "without a DETAIL such as"},
		"retry after, text":   {raise("EV429", "soon"), event.Failure, "sql:EV429", "without a DETAIL such as"},
		"not yet":             {`PERFORM eventsvc.not_yet('` + soon.Format(time.RFC3339) + `');`, event.NotYet, "", "not due before " + soon.Format(time.RFC3339)},
		"not yet, raised":     {raise("EV425", soon.Format(time.RFC3339)), event.NotYet, "", "not due before"},
		"not yet, no offset":  {raise("EV425", soon.Format("2006-01-02T15:04:05")), event.Failure, "sql:EV425", "no RFC 3339 time with an offset"},
		"not yet, past":       {`PERFORM eventsvc.not_yet(now());`, event.Failure, "sql:EV425", "a time that is past"},
		"not yet, null":       {`PERFORM eventsvc.not_yet(NULL);`, event.Failure, "sql:EV425", "no RFC 3339 time"},
		"not yet, infinite":   {`PERFORM eventsvc.not_yet('infinity');`, event.Failure, "sql:EV425", "no RFC 3339 time"},
		"not yet, far":        {`PERFORM eventsvc.not_yet(now() + interval '11 years');`, event.Failure, "sql:EV425", "more than ten years"},
		"an exception":        {`RAISE EXCEPTION E'of\ntwo lines';`, event.Failure, "sql:P0001", "P0001: of two lines"},
		"a constraint":        {`CREATE TEMP TABLE x (a int CHECK (a > 0)); INSERT INTO x VALUES (0);`, event.Failure, "sql:23514", "violates check constraint"},
		"its own bad number":  {`PERFORM 'x'::int;`, event.Failure, "sql:22P02", "invalid input syntax"},
		"cancelled at once":   {raise("57014", ""), event.Failure, "sql:57014", "so it is"},
		"a later check": {`CREATE TEMP TABLE p (a int PRIMARY KEY); CREATE TEMP TABLE c (a int REFERENCES p DEFERRABLE INITIALLY DEFERRED); INSERT INTO c VALUES (1);`,
			event.Failure, "sql:23503", "violates foreign key"},
		"a commit":     {`COMMIT;`, event.Failure, "sql:2D000", "invalid transaction termination"},
		"its own end":  {`PERFORM pg_terminate_backend(pg_backend_pid());`, event.Failure, "sql:57P01", "terminating connection"},
		"a long story": {`RAISE EXCEPTION '%', repeat('é', 5000);`, event.Failure, "sql:P0001", "é…"},
		"a book":       {`RAISE EXCEPTION '%', repeat('x', 10000000);`, event.Failure, event.ClassProtocol, "too long to be read"},
	} {
		t.Run(name, func(t *testing.T) {
			h.body(t, c.does)
			claim, v, _ := h.attempt(t, `{}`)
			if v.Ruling != c.ruling || v.Class != c.class || !strings.Contains(v.Reason, c.reason) || len(v.Reason) > 400 {
				t.Errorf("got %s, %s, %q", v.Ruling, v.Class, v.Reason)
			}
			if v.Uncounted != (name == "retry after, free") || v.Ruling == event.NotYet && !v.Until.Equal(soon) {
				t.Errorf("got %+v", v)
			}
			h.wants(t, claim, event.Claimed, 0)
		})
	}
	h.exec(t, `DROP FUNCTION app.f`)
	if _, v, _ := h.attempt(t, `{}`); v.Class != "sql:42883" || v.Ruling != event.Failure {
		t.Errorf("without the function: %+v", v)
	}
}

func TestDeferralsAreUncountedWhereTheReceiverSaysSo(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	h.to.Receiver.CountDeferrals = false
	h.body(t, `PERFORM eventsvc.retry_after(7);`)
	if _, v, _ := h.attempt(t, `{}`); !v.Uncounted || v.After != 7*time.Second {
		t.Errorf("got %+v", v)
	}
}

// What jsonb does not hold is found out before the call where that is cheap, and by the
// database where not; a function's own bad numbers are told from it.
func TestDataThatJSONBDoesNotHoldIsDecode(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	h.body(t, ``)
	for data, early := range map[string]bool{
		`{"a":"x\u0000y"}`: true, `{"\u0000":1}`: true, `"\ud800"`: true, `{"a":`: true, `1 2`: true, "\"\xff\"": true, ``: true,
		`1e400000`: false, `{"a":1e-40000}`: false,
	} {
		c := &event.Claim{Event: event.Event{Data: []byte(data)}}
		if err := h.Check(c); (err != nil) != early {
			t.Errorf("%q is checked as %v", data, err)
		}
		if data == "" || strings.Contains(data, "\xff") || strings.HasSuffix(data, ":") || data == "1 2" {
			continue // no JSON, of which no call is made
		}
		claim, v, _ := h.attempt(t, data)
		if v.Ruling != event.Permanent || v.Class != event.ClassDecode || !strings.HasPrefix(v.Reason, "jsonb does not hold the event: ") {
			t.Errorf("%q is %+v", data, v)
		}
		h.wants(t, claim, event.Claimed, 0)
	}
	for _, fine := range []string{`{"a":1,"a":2}`, `"\\u0000"`, `"\ud83d\ude00"`, ` [1.50, null] `, `1e100000`} {
		if err := h.Check(&event.Claim{Event: event.Event{Data: []byte(fine)}}); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

func TestAFunctionRunsAsItsRoleAndTheRecordDoesNot(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	role := "r" + strings.ReplaceAll(strings.ToLower(t.Name()), "/", "_")[:20] + time.Now().Format("150405")
	h.exec(t, `CREATE ROLE `+role+`; GRANT USAGE ON SCHEMA app TO `+role+`; GRANT INSERT ON app.effects TO `+role)
	t.Cleanup(func() { h.pool.Exec(t.Context(), `SELECT 1`) })
	defer h.exec(t, `DROP OWNED BY `+role+`; DROP ROLE `+role)
	h.to.Receiver.Role = role
	h.body(t, `INSERT INTO app.effects VALUES (context ->> 'delivery_id', current_user::text);`)
	c, v, recorded := h.attempt(t, `{}`)
	if v.Ruling != event.Success || !recorded {
		t.Fatalf("got %+v", v)
	}
	h.wants(t, c, event.Succeeded, 2)
	var as int
	if err := h.pool.QueryRow(t.Context(), `SELECT count(*) FROM app.effects WHERE what = $1`, role).Scan(&as); err != nil || as != 1 {
		t.Errorf("%d ran as the role, %v", as, err)
	}
	h.body(t, `DELETE FROM eventsvc.owed;`)
	if c, v, _ := h.attempt(t, `{}`); v.Class != "sql:42501" || h.status(t, c) != event.Claimed {
		t.Errorf("what the role may not: %+v", v)
	}
	h.to.Receiver.Role = "nobody_of_that_name"
	if _, v, _ := h.attempt(t, `{}`); v.Ruling != event.Failure || !strings.HasPrefix(string(v.Class), "sql:") {
		t.Errorf("an unknown role: %+v", v)
	}
}

func TestATestOfAFunctionLeavesNothing(t *testing.T) {
	h := open(t, pgtest.URL(t), "")
	h.body(t, ``)
	c := &event.Claim{To: h.to, Test: true, MaxAttempts: 1, Event: event.Event{ID: event.NewID(time.Now()), Type: "a.b", Data: []byte(`{}`), RecordedAt: time.Now()}}
	c.Delivery = event.NewID(time.Now())
	call := h.take(t, c)
	if v := call.Make(t.Context()); v.Ruling != event.Success {
		t.Fatalf("got %+v", v)
	}
	call.End()
	if n := h.effects(t, c); n != 0 {
		t.Errorf("%d effects", n)
	}
}
