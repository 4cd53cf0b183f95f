package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

var calls = []string{"EVENTSVC_FUNCTION_SCHEMAS=app"}

// program makes a schema with a table of effects and a function that writes one.
func program(t testing.TB, url, does string) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Open(t, url)
	for _, sql := range []string{`CREATE SCHEMA app`, `CREATE TABLE app.effects (delivery text)`, `CREATE SEQUENCE app.runs`,
		`CREATE FUNCTION app.f(event jsonb, context jsonb) RETURNS void LANGUAGE plpgsql AS $f$
			BEGIN INSERT INTO app.effects VALUES (context ->> 'delivery_id'); ` + does + ` END $f$`} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

func count(t testing.TB, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAFunctionReceiverFromDeclarationToVerdict(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := program(t, url, `CASE event #>> '{data,does}'
		WHEN 'refuse' THEN PERFORM eventsvc.permanent('no such order');
		WHEN 'defer'  THEN PERFORM eventsvc.not_yet(now() + interval '1 hour');
		WHEN 'fail'   THEN RAISE EXCEPTION 'out of paper';
		ELSE NULL;
		END CASE;`)
	told := open(t, nil)
	p := start(t, url, calls, "serve")
	p.declare(t, "r", `{"events":["*"],"function":"app.f","max_attempts":1,"on_failure":{"url":"`+told.URL+`"}}`)
	if a := p.call(t, "GET", "/v1/receivers/r", ""); a.at("function") != "app.f" || a.at("url") != "" || a.at("max_concurrency") != "4" {
		t.Errorf("shown as %s", a.text)
	}
	for does, want := range map[string]struct{ status, class, why string }{
		"work":   {"succeeded", "", ""},
		"refuse": {"dead", "permanent", "no such order"},
		"defer":  {"pending", "", "not due before"},
		"fail":   {"dead", "sql:P0001", "out of paper"},
	} {
		a := p.fire(t, does, `{"type":"a.b","data":{"does":"`+does+`"}}`)
		eventually(t, func() bool {
			return p.call(t, "GET", "/v1/deliveries/"+a.at("deliveries.0.id"), "").list("attempt_log") == 1
		}, func() string { return does + " was never tried" })
		d := p.settled(t, a.at("deliveries.0.id"), want.status)
		if d.at("attempt_log.0.class") != want.class || !strings.Contains(d.at("attempt_log.0.error"), want.why) {
			t.Errorf("%s: %s", does, d.text)
		}
		if n, written := count(t, pool, `SELECT count(*) FROM app.effects WHERE delivery = '`+d.at("id")+`'`), want.status == "succeeded"; (n == 1) != written || n > 1 {
			t.Errorf("%s: %d effects", does, n)
		}
	}
	p.log.await(t, "on attempt 1 with sql:P0001; the row is dead")
	told.next(t)
	told.next(t)

	// A test is a call whose writes are undone.
	before := count(t, pool, `SELECT count(*) FROM app.effects`)
	if a := p.call(t, "POST", "/v1/receivers/r/test", ""); a.status != 200 || a.at("verdict") != "success" {
		t.Errorf("a test: %d %s", a.status, a.text)
	}
	if a := p.call(t, "POST", "/v1/receivers/r/test", `{"data":{"does":"fail"}}`); a.at("class") != "sql:P0001" {
		t.Errorf("a test that fails: %d %s", a.status, a.text)
	}
	if n := count(t, pool, `SELECT count(*) FROM app.effects`); n != before {
		t.Errorf("tests left %d effects", n-before)
	}
}

func TestAFunctionReceiverIsRefusedWithWhatWouldDo(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	program(t, url, "")
	closed, opened := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve"), start(t, url, append(calls, "EVENTSVC_RELAY_WORKERS=0"), "serve")
	for _, c := range []struct {
		at                  *process
		body, pointer, says string
	}{
		{closed, `{"events":["*"],"function":"app.f"}`, "/function", "EVENTSVC_FUNCTION_SCHEMAS=app would allow it"},
		{opened, `{"events":["*"],"function":"public.f"}`, "/function", "EVENTSVC_FUNCTION_SCHEMAS=app,public would allow it"},
		{opened, `{"events":["*"],"function":"app.g"}`, "/function", "the database has no function app.g(event jsonb, context jsonb)"},
		{opened, `{"events":["*"],"function":"app.f","role":"a\"b"}`, "/role", "must be the name of a role"},
		{opened, `{"events":["*"],"function":"app.f","url":"http://127.0.0.1:1/"}`, "/function", "exclude each other"},
		{opened, `{"events":["*"],"function":"app.f","fan_out":true}`, "/function", "exclude each other"},
		{opened, `{"events":["*"]}`, "/url", "a url, a function or fan_out"},
	} {
		if a := c.at.call(t, "PUT", "/v1/receivers/r", c.body); a.status != http.StatusUnprocessableEntity || a.at("errors.0.pointer") != c.pointer || !strings.Contains(a.text, c.says) {
			t.Errorf("%s: %d %s", c.body, a.status, a.text)
		}
	}
}

// A worker is killed with SIGKILL at a step between claim and commit; another finds the
// delivery when its lease has lapsed. What the function wrote is there once.
func TestAFunctionIsEffectivelyOnceWhateverDiesWhen(t *testing.T) {
	t.Parallel()
	const once = `IF nextval('app.runs') = 1 THEN PERFORM pg_sleep(3); END IF;`
	for name, c := range map[string]struct{ does, prepare string }{
		"in the function": {does: once},
		"while its success is recorded": {prepare: `CREATE FUNCTION app.trap() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN ` + once + ` RETURN NEW; END $f$;
			CREATE TRIGGER trap AFTER INSERT ON eventsvc.settled FOR EACH ROW EXECUTE FUNCTION app.trap()`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			pool := program(t, url, c.does)
			if _, err := pool.Exec(t.Context(), c.prepare); err != nil {
				t.Fatal(err)
			}
			p := start(t, url, append(calls, "EVENTSVC_RELAY_WORKERS=0"), "serve")
			p.declare(t, "r", `{"events":["*"],"function":"app.f","timeout":"4s","lease":"9.1s"}`)
			relay := start(t, url, calls, "relay")
			id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
			eventually(t, func() bool {
				return count(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`) == 1
			}, func() string { return "the function does not run" })
			relay.stop(t, syscall.SIGKILL)
			start(t, url, calls, "relay")
			d := p.settled(t, id, "succeeded")
			if n := count(t, pool, `SELECT count(*) FROM app.effects`); n != 1 || d.at("attempt_log.0.outcome") != "unknown" || d.at("attempt_log.1.outcome") != "succeeded" {
				t.Errorf("%d effects, %s", n, d.text)
			}
		})
	}
}

// Workers are killed and sessions ended again and again, wherever they stand.
func TestAStormOfKillsLeavesOneEffectADelivery(t *testing.T) {
	t.Parallel()
	const events = 300
	url := pgtest.URL(t)
	pool := program(t, url, `PERFORM pg_sleep(random() * 0.03);`)
	p := start(t, url, append(calls, "EVENTSVC_RELAY_WORKERS=0"), "serve")
	p.declare(t, "r", `{"events":["*"],"function":"app.f","timeout":"1s","lease":"6.1s","max_concurrency":8,"max_attempts":100,"backoff_base":"50ms","backoff_cap":"200ms"}`)
	for n := range events {
		p.fire(t, fmt.Sprint("k", n), `{"type":"a.b","data":1}`)
	}
	effects := func() int { return count(t, pool, `SELECT count(*) FROM app.effects`) }
	relay := start(t, url, calls, "relay")
	for _, until := range []int{30, 60, 90, 120, 150, 180} {
		eventually(t, func() bool { return effects() >= until }, func() string { return fmt.Sprintf("no more than %d effects", effects()) })
		if until%60 == 0 {
			relay.stop(t, syscall.SIGKILL)
			relay = start(t, url, calls, "relay")
			continue
		}
		if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'eventsvc/function'`); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool {
		return count(t, pool, `SELECT count(*) FROM eventsvc.settled WHERE status = 'succeeded'`) == events
	},
		func() string { return fmt.Sprintf("no more than %d effects", effects()) })
	if n, distinct := effects(), count(t, pool, `SELECT count(DISTINCT delivery) FROM app.effects`); n != events || distinct != events {
		t.Errorf("%d effects of %d deliveries, want %d of each", n, distinct, events)
	}
}
