package e2e

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// trap has something done when an event is about to be written, the first time only.
func trap(t testing.TB, db *pgxpool.Pool, does string) {
	t.Helper()
	for _, sql := range []string{`CREATE SEQUENCE app.traps`,
		`CREATE FUNCTION app.trap() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN IF nextval('app.traps') = 1 THEN ` + does + `; END IF; RETURN NEW; END $f$`,
		`CREATE TRIGGER trap BEFORE INSERT ON eventsvc.events FOR EACH ROW EXECUTE FUNCTION app.trap()`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

const agreeable = `{"type":"a.b","data":{"n":1}}`

func TestAnInlineFunctionsWritesAndItsEventAreOneTransaction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does   string
		status int
	}{
		"the event is refused":         {`RAISE EXCEPTION 'no such event'`, 500},
		"the functions' sessions die":  {`PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'eventsvc/function' AND datname = current_database()`, 201},
		"the event's own session dies": {`PERFORM pg_terminate_backend(pg_backend_pid())`, 201},
	} {
		for path, body := range map[string]string{"/v1/events": agreeable, "/v1/transactions": `{"events":[` + agreeable + `,` + agreeable + `]}`} {
			t.Run(name+" "+path, func(t *testing.T) {
				t.Parallel()
				p, db := guarded(t)
				trap(t, db, c.does)
				if a := p.post(t, path, "k", body); a.status != c.status {
					t.Errorf("%d %s", a.status, a.text)
				}
				n := 1
				if path == "/v1/transactions" {
					n = 2
				}
				if c.status == 500 {
					kept(t, db, "refused", 0, 0)
					if a := p.post(t, path, "k", body); a.status != 201 {
						t.Errorf("again: %d %s", a.status, a.text)
					}
				}
				kept(t, db, "at last", n, n)
				isStored(t, p, db)
			})
		}
	}
}

func TestAnInlineFunctionIsCalledForOneOfManyFiresOfOneKey(t *testing.T) {
	t.Parallel()
	p, db := guarded(t)
	release := holdFunctions(t, p, db)
	answers := make(chan answer, 6)
	post := func() { answers <- p.post(t, "/v1/events", "k", awaiting) }
	go post()
	awaitHeld(t, db, 1)
	for range 5 { // more than there are connections
		go post()
	}
	for range 5 {
		if a := <-answers; a.status != 409 && a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("while it waits: %d %s", a.status, a.text)
		}
	}
	release()
	if a := <-answers; a.status != 201 {
		t.Errorf("the first: %d %s", a.status, a.text)
	}
	for range 5 {
		go post()
	}
	for range 5 {
		if a := <-answers; a.status != 201 || a.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("after it: %d %s", a.status, a.text)
		}
	}
	kept(t, db, "one key", 1, 1)
}

// A failed call's connection is closed, whatever kind of failure that was: what a function
// has done to its session cannot meet the next event.
func TestAConnectionOnWhichAnInlineFunctionFailedIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	p, db := guarded(t)
	for _, sql := range []string{
		`CREATE TABLE app.pids (pid int)`,
		`CREATE FUNCTION app.pid(event jsonb, context jsonb) RETURNS void LANGUAGE plpgsql AS $f$
			BEGIN
				INSERT INTO app.pids VALUES (pg_backend_pid());
				IF event #>> '{data,does}' = 'prepare' THEN EXECUTE 'PREPARE mine AS SELECT 1'; END IF;
				IF event #>> '{data,does}' = 'refuse' THEN RAISE EXCEPTION 'no'; END IF;
			END $f$`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	p.declare(t, "pid", `{"events":["p.q"],"function":"app.pid","mode":"inline"}`)
	last := func() int { return count(t, db, `SELECT pid FROM app.pids ORDER BY ctid DESC LIMIT 1`) }
	p.fire(t, "k1", `{"type":"p.q","data":{}}`)
	first := last()
	p.fire(t, "k2", `{"type":"p.q","data":{}}`)
	if second := last(); second != first {
		t.Errorf("a connection that nothing is wrong with was not used again: %d, %d", first, second)
	}
	if a := p.post(t, "/v1/events", "refused", `{"type":"p.q","data":{"does":"refuse"}}`); a.status != 409 {
		t.Errorf("refused: %d %s", a.status, a.text)
	}
	eventually(t, func() bool {
		return count(t, db, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'eventsvc/function' AND datname = current_database()`) == 0
	},
		func() string { return "the session of a call that failed goes on" })
	p.fire(t, "k3", `{"type":"p.q","data":{"does":"prepare"}}`)
	spoilt := last()
	p.fire(t, "k4", `{"type":"p.q","data":{"does":"prepare"}}`)
	if last() == spoilt {
		t.Error("a session in which a function kept a statement was used again")
	}
}

// What is checked at the commit elsewhere is checked after each function here, and not before
// its end, whichever was called before it in the same transaction.
func TestAFunctionMayDeferAConstraintAfterAnotherWasCalled(t *testing.T) {
	t.Parallel()
	p, db := guarded(t)
	for _, sql := range []string{
		`CREATE TABLE app.parents (id text PRIMARY KEY)`,
		`CREATE TABLE app.children (parent text CONSTRAINT kin REFERENCES app.parents DEFERRABLE INITIALLY DEFERRED)`,
		`CREATE TABLE app.others (n int CONSTRAINT positive CHECK (n > 0))`,
		`CREATE FUNCTION app.adopt(event jsonb, context jsonb) RETURNS void LANGUAGE sql AS $f$
			INSERT INTO app.children VALUES ((event ->> 'id') || (context ->> 'receiver'));
			INSERT INTO app.parents SELECT (event ->> 'id') || (context ->> 'receiver') WHERE event #>> '{data,n}' <> '0' $f$`} {
		do(t, db, sql)
	}
	for _, key := range []string{"one", "two"} {
		p.declare(t, key, `{"events":["p.q"],"function":"app.adopt","mode":"inline"}`)
	}
	p.fire(t, "single", `{"type":"p.q","data":{"n":1}}`)
	if a := p.transact(t, "together", `{"events":[{"type":"p.q","data":{"n":1}},{"type":"p.q","data":{"n":1}}]}`); a.status != 201 {
		t.Errorf("together: %d %s", a.status, a.text)
	}
	if a := p.transact(t, "orphan", `{"events":[{"type":"p.q","data":{"n":1}},{"type":"p.q","data":{"n":0}}]}`); a.status != 409 || a.at("code") != "vetoed" {
		t.Errorf("with an orphan: %d %s", a.status, a.text)
	}
	if n := count(t, db, `SELECT count(*) FROM app.children`); n != 6 {
		t.Errorf("%d children, want 6", n)
	}
}
