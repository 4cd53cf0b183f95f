package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// holdFunctions has every function that is told to wait do so until what it answers is called.
func holdFunctions(t testing.TB, p *process, db *pgxpool.Pool) (release func()) {
	t.Helper()
	p.call(t, "PATCH", "/v1/receivers/guard", `{"timeout":"10s"}`, "Content-Type", "application/merge-patch+json")
	tx, err := db.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(4711)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback(context.Background()) }
	t.Cleanup(release)
	return release
}

func awaitHeld(t testing.TB, db *pgxpool.Pool, n int) {
	t.Helper()
	eventually(t, func() bool {
		return count(t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == n
	}, func() string { return "the function was never called" })
}

const awaiting = `{"type":"a.b","data":{"n":1,"does":"wait"}}`

func TestAFireThatFindsNoConnectionForItsFunctionIsRefusedAndHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	p, db := guarded(t)
	release := holdFunctions(t, p, db)
	held := make(chan answer, 3) // as many as there are connections
	for _, key := range []string{"w1", "w2", "w3"} {
		go func() { held <- p.post(t, "/v1/events", key, awaiting) }()
	}
	awaitHeld(t, db, 3)
	refused, began := make(chan answer, 3), time.Now()
	const fine = `{"type":"a.b","data":{"n":1}}`
	go func() { refused <- p.post(t, "/v1/events", "late", fine) }()
	go func() { refused <- p.post(t, "/v1/transactions", "late-together", `{"events":[`+fine+`,`+fine+`]}`) }()
	go func() {
		refused <- p.post(t, "/v1/transactions", "late-held", `{"prepare":true,"check":{"url":"http://127.0.0.1:1/","secret":"`+checkSecret+`"},"events":[`+fine+`]}`)
	}()
	others := 0
	for ; time.Since(began) < 1500*time.Millisecond; others++ { // while those three wait
		other := time.Now()
		p.fire(t, fmt.Sprint("other", others), `{"type":"c.d","data":{}}`)
		if took := time.Since(other); took > time.Second {
			t.Errorf("another fire took %s", took)
		}
	}
	for range 3 {
		if a := <-refused; a.status != 503 || a.at("code") != "service-unavailable" || a.header.Get("Retry-After") == "" {
			t.Errorf("%d %v %s", a.status, a.header, a.text)
		}
	}
	if took := time.Since(began); took < 1900*time.Millisecond || took > 4*time.Second {
		t.Errorf("refused after %s", took)
	}
	mixed := p.call(t, "POST", "/v1/events/bulk", `[{"type":"a.b","data":{"n":1},"idempotency_key":"late-bulk"},{"type":"c.d","data":{},"idempotency_key":"bulk"}]`)
	if strings.Count(mixed.text, `"service-unavailable"`) != 1 {
		t.Errorf("bulk: %d %s", mixed.status, mixed.text)
	}
	kept(t, db, "refused", others+1, 0)
	if n := count(t, db, `SELECT count(*) FROM eventsvc.fire_keys WHERE key LIKE '%late%'`); n != 0 {
		t.Errorf("%d keys are spent", n)
	}
	if n := count(t, db, `SELECT count(*) FROM eventsvc.transactions`); n != 0 {
		t.Errorf("%d transactions are kept", n)
	}
	release()
	for range 3 {
		if a := <-held; a.status != 201 {
			t.Errorf("held: %d %s", a.status, a.text)
		}
	}
	p.fire(t, "late", fine) // the key was not spent
	kept(t, db, "at last", others+5, 4)
}

// The registry moves while the function runs: the event is matched by what the registry has
// come to, and what was done before that is undone.
func TestAnInlineFunctionUnderWhichTheRegistryMovesIsCalledByWhatItHasComeTo(t *testing.T) {
	t.Parallel()
	told := open(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/no") {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	const second = `CREATE TABLE app.second (id text); CREATE FUNCTION app.second(event jsonb, context jsonb) RETURNS void LANGUAGE plpgsql AS
		$f$ BEGIN INSERT INTO app.second VALUES (event ->> 'id'); IF event #>> '{data,second}' = 'refuse' THEN RAISE EXCEPTION 'not by me'; END IF; END $f$`
	for name, c := range map[string]struct {
		move   func(*testing.T, *process)
		fire   string
		status int
		seen   int // by the function, for each event; 1 unless the event is not stored
		second int
		owed   int
	}{
		"a receiver is declared": {fire: awaiting, status: 201, seen: 1, owed: 1, move: func(t *testing.T, p *process) {
			p.declare(t, "r", `{"events":["a.*"],"url":"`+told.URL+`"}`)
		}},
		"another function is declared": {fire: awaiting, status: 201, seen: 1, second: 1, move: func(t *testing.T, p *process) {
			p.declare(t, "second", `{"events":["a.*"],"function":"app.second","mode":"inline"}`)
		}},
		"one that refuses is declared": {fire: `{"type":"a.b","data":{"n":1,"does":"wait","second":"refuse"}}`, status: 409, move: func(t *testing.T, p *process) {
			p.declare(t, "second", `{"events":["a.*"],"function":"app.second","mode":"inline"}`)
		}},
		"one over HTTP that agrees is declared": {fire: awaiting, status: 201, seen: 1, move: func(t *testing.T, p *process) {
			p.declare(t, "asked", `{"events":["a.*"],"url":"`+told.URL+`/yes","mode":"inline"}`)
		}},
		"one over HTTP that refuses is declared": {fire: awaiting, status: 409, move: func(t *testing.T, p *process) {
			p.declare(t, "asked", `{"events":["a.*"],"url":"`+told.URL+`/no","mode":"inline"}`)
		}},
		"it is removed": {fire: awaiting, status: 201, move: func(t *testing.T, p *process) {
			if a := p.call(t, "DELETE", "/v1/receivers/guard", ""); a.status >= 300 {
				t.Errorf("%d %s", a.status, a.text)
			}
		}},
		"it is paused": {fire: awaiting, status: 409, move: func(t *testing.T, p *process) {
			p.call(t, "POST", "/v1/receivers/guard/pause", "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for way, ends := range map[string]string{"one": "", "together": "", "prepared": "commit"} {
				t.Run(way, func(t *testing.T) {
					t.Parallel()
					p, db := guarded(t)
					if _, err := db.Exec(t.Context(), second); err != nil {
						t.Fatal(err)
					}
					path, body, n := "/v1/events", c.fire, 1
					if way != "one" {
						path, body, n = "/v1/transactions", `{"events":[{"type":"a.b","data":{"n":1}},`+c.fire+`]}`, 2
					}
					if ends != "" {
						body = `{"prepare":true,"check":{"url":"` + told.URL + `","secret":"` + checkSecret + `"},` + body[1:]
					}
					release := holdFunctions(t, p, db)
					answered := make(chan answer, 1)
					go func() { answered <- p.post(t, path, "k", body) }()
					awaitHeld(t, db, 1)
					c.move(t, p)
					release()
					a := <-answered
					if a.status != c.status {
						t.Errorf("%d %s", a.status, a.text)
					}
					if a.status == 201 && ends != "" {
						a = p.call(t, "POST", "/v1/transactions/"+a.at("transaction.id")+"/"+ends, "")
					}
					if c.status != 201 {
						n = 0
					}
					kept(t, db, "moved", n, n*c.seen)
					for what, want := range map[string]int{`app.second`: n * c.second, `(SELECT event_id FROM eventsvc.owed UNION ALL SELECT event_id FROM eventsvc.settled) d`: n * c.owed, `eventsvc.fire_keys`: min(n, 1)} {
						if have := count(t, db, `SELECT count(*) FROM `+what); have != want {
							t.Errorf("%d in %s, want %d", have, what, want)
						}
					}
					isStored(t, p, db)
				})
			}
		})
	}
}

// isStored fails where a function was told an id that no event has.
func isStored(t testing.TB, p *process, db *pgxpool.Pool) {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT id FROM app.seen`)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if a := p.call(t, "GET", "/v1/events/"+id, ""); a.status != 200 {
			t.Errorf("the function was told of %s, which is no event: %d", id, a.status)
		}
	}
}

// A registry that never stands still for as long as the function takes ends its fire, not
// the service's patience: it is called a few times, and then the caller asks again.
func TestAnInlineFunctionDoesNotFollowARegistryForEver(t *testing.T) {
	t.Parallel()
	p, db := guarded(t)
	if _, err := db.Exec(t.Context(), `CREATE FUNCTION app.slow(event jsonb, context jsonb) RETURNS void LANGUAGE sql AS $f$ SELECT nextval('app.runs'), pg_sleep(0.5) $f$`); err != nil {
		t.Fatal(err)
	}
	p.declare(t, "slow", `{"events":["s.s"],"function":"app.slow","mode":"inline","timeout":"5s"}`)
	answered := make(chan answer, 1)
	go func() { answered <- p.post(t, "/v1/events", "k", `{"type":"s.s","data":{}}`) }()
	late := time.After(20 * time.Second)
	for n := 0; ; n++ {
		p.declare(t, "other", fmt.Sprintf(`{"events":["z.z"],"url":"http://127.0.0.1:1/","description":"%d"}`, n))
		select {
		case a := <-answered:
			if a.status != 503 || a.header.Get("Retry-After") == "" {
				t.Errorf("%d %s", a.status, a.text)
			}
			if runs := count(t, db, `SELECT last_value FROM app.runs`); runs > 4 {
				t.Errorf("called %d times", runs)
			}
			kept(t, db, "given up", 0, 0)
			p.fire(t, "k", `{"type":"s.s","data":{}}`)
			return
		case <-late:
			t.Fatal("it is called for ever")
		default:
		}
	}
}
