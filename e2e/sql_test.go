package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// fired is the id that a statement in SQL answers.
func fired(t testing.TB, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, sql string, args ...any) (id string) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&id); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return id
}

func TestAnEventFiredInSQLExistsIfItsTransactionCommits(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	db := pgtest.Open(t, url)
	s := open(t, nil)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`","filter":"event.data.n > 1","format":"raw"}`)
	p.declare(t, "hooks", `{"events":["order.*"],"fan_out":true,"format":"raw"}`)
	p.call(t, "PUT", "/v1/receivers/hooks/targets/acme", `{"url":"`+s.URL+`","tenant":"acme"}`)
	if _, err := db.Exec(t.Context(), `CREATE TABLE orders (n integer)`); err != nil {
		t.Fatal(err)
	}
	work := func(end string) (id string) {
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `INSERT INTO orders VALUES (1)`); err != nil {
			t.Fatal(err)
		}
		id = fired(t, tx, `SELECT eventsvc.fire('order.placed', '{"n":  2.50}', key => 'k', tenant => 'acme', subject => 'order/1', metadata => '{"a":"b"}')`)
		if a := p.call(t, "GET", "/v1/events/"+id, ""); a.status != 404 {
			t.Errorf("before the end: %d %s", a.status, a.text)
		}
		if _, err := tx.Exec(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		tx.Rollback(t.Context())
		return id
	}
	rolledBack := work("ROLLBACK")
	id := work("COMMIT")
	for range 2 {
		if w := s.next(t); w.header.Get("Eventsvc-Event-Id") != id || string(w.body) != `{"n":  2.50}` {
			t.Errorf("delivered %s of %s", w.body, w.header.Get("Eventsvc-Event-Id"))
		}
	}
	if a := p.call(t, "GET", "/v1/events/"+rolledBack, ""); a.status != 404 {
		t.Errorf("rolled back: %d %s", a.status, a.text)
	}
	a := p.call(t, "GET", "/v1/events/"+id, "")
	if a.status != 200 || a.at("event.tenant") != "acme" || a.at("event.subject") != "order/1" || a.at("event.metadata.a") != "b" || a.list("deliveries") != 2 {
		t.Errorf("%d %s", a.status, a.text)
	}
	// The same key again is the same event, and nothing more; with another it is refused.
	if again := fired(t, db, `SELECT eventsvc.fire('order.placed', '{"n":2.5}'::jsonb, key => 'k', tenant => 'acme', subject => 'order/1', metadata => '{"a":"b"}')`); again != id {
		t.Errorf("again: %s, want %s", again, id)
	}
	_, err := db.Exec(t.Context(), `SELECT eventsvc.fire('order.placed', '{"n":3}', key => 'k')`)
	if code := sqlState(err); code != "EV409" {
		t.Errorf("another event under the key: %v", err)
	}
	// Without a key, each call is an event; json keeps its text, as text does.
	one, two := fired(t, db, `SELECT eventsvc.fire('quiet', '1'::json)`), fired(t, db, `SELECT eventsvc.fire('quiet', jsonb_build_object('a', 1))`)
	if one == two {
		t.Error("two calls without a key are one event")
	}
	eventually(t, func() bool { return p.call(t, "GET", "/v1/status", "").at("unmatched.waiting") == "0" }, func() string { return "not matched" })
	if a := p.call(t, "GET", "/v1/events/"+two, ""); a.list("deliveries") != 0 || a.at("event.data.a") != "1" {
		t.Errorf("%s", a.text)
	}
}

func sqlState(err error) string {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

func TestSQLRefusesWhatAPOSTRefuses(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	long := strings.Repeat("x", 256)
	for call, says := range map[string]string{
		`('Order', '1')`: "type must be dotted", `(NULL, '1')`: "type must be dotted", `('a..b', '1')`: "type must be dotted",
		`('` + strings.Repeat("a", 129) + `', '1')`: "type must be dotted", `('eventsvc.x', '1')`: "type must not begin",
		`('a', NULL::text)`: "data is required", `('a', '{')`: "data is no JSON", `('a', '')`: "data is no JSON",
		`('a', to_json(repeat('x', 262143)))`: "data is 262145 bytes",
		`('a', '1', key => '')`:               "key must be 1 to 255", `('a', '1', key => 'größe')`: "key must be 1 to 255", `('a', '1', key => '` + long + `')`: "key must be 1 to 255",
		`('a', '1', tenant => '` + long + `')`: "tenant is 256 bytes", `('a', '1', subject => E'a\nb')`: "subject must not hold control",
		`('a', '1', actor => '{}')`: "actor must be", `('a', '1', actor => '{"key":"k","x":1}')`: "actor must be", `('a', '1', actor => '{"key":7}')`: "actor must be",
		`('a', '1', metadata => '{"a":1}')`: "metadata must be", `('a', '1', metadata => '[]')`: "metadata must be", `('a', '1', suppress => '')`: "suppress must say",
		`('a', '1', metadata => (SELECT jsonb_object_agg('k' || n, 'v') FROM generate_series(1, 51) n))`: "metadata holds more than 50",
		`('a', '1', occurred_at => 'infinity')`:                                                          "occurred_at is outside",
	} {
		_, err := db.Exec(t.Context(), `SELECT eventsvc.fire`+call)
		if sqlState(err) != "EV422" || !strings.Contains(err.Error(), "eventsvc.fire: "+says) {
			t.Errorf("%.60s: %v", call, err)
		}
	}
	for _, call := range []string{
		`('a', to_json(repeat('x', 262142)))`, `('a_1.b', ' [1, {"a":"\u0000"}] ', key => '` + long[:255] + `')`, `('a', 'null', actor => '{"key":"k","label":"l"}', occurred_at => '2026-01-01Z')`,
		`('a', '1', metadata => (SELECT jsonb_object_agg('k' || n, 'v') FROM generate_series(1, 50) n), tenant => '` + long[:255] + `')`,
	} {
		if _, err := db.Exec(t.Context(), `SELECT eventsvc.fire`+call); err != nil {
			t.Errorf("%.60s: %v", call, err)
		}
	}
	var n int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM eventsvc.events`).Scan(&n); err != nil || n != 4 {
		t.Errorf("%d events, %v", n, err)
	}
}

// What SQL cannot judge is judged when it is matched, by the code that judges a POST. It is
// never dropped, and owed to nobody until a person says so.
func TestAnEventFiredInSQLAgainstItsSchemaWaitsForAPerson(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	db := pgtest.Open(t, url)
	s := open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.call(t, "PUT", "/v1/event-types/order.paid", `{"schema":{"type":"object","required":["total"]},"retention":"30d"}`)
	wrong := fired(t, db, `SELECT eventsvc.fire('order.paid', '{"secret":"4711"}')`)
	right := fired(t, db, `SELECT eventsvc.fire('order.paid', '{"total":1}')`)
	if w := s.next(t); w.header.Get("Eventsvc-Event-Id") != right {
		t.Errorf("delivered %s", w.header.Get("Eventsvc-Event-Id"))
	}
	eventually(t, func() bool {
		return p.call(t, "GET", "/v1/status", "").at("unmatched.refused") == "1"
	}, func() string { return p.call(t, "GET", "/v1/status", "").text })
	if log := p.log.String(); !strings.Contains(log, wrong) || !strings.Contains(log, "/data") || strings.Contains(log, "4711") {
		t.Errorf("the log: %s", log)
	}
	var kept *time.Time
	if err := db.QueryRow(t.Context(), `SELECT keep_until FROM eventsvc.events WHERE eventsvc.typeid('evt', id) = $1`, right).Scan(&kept); err != nil || kept == nil {
		t.Errorf("the retention of its type: %v, %v", kept, err)
	}
	if a := p.call(t, "GET", "/v1/events/"+wrong, ""); a.status != 200 || a.list("deliveries") != 0 {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := p.call(t, "POST", "/v1/events/"+wrong+"/replay", ""); a.at("added") != "1" {
		t.Errorf("replay: %d %s", a.status, a.text)
	}
	if w := s.next(t); w.header.Get("Eventsvc-Event-Id") != wrong {
		t.Errorf("delivered %s", w.header.Get("Eventsvc-Event-Id"))
	}
	if a := p.call(t, "GET", "/v1/status", ""); a.at("unmatched.refused") != "0" {
		t.Errorf("%s", a.text)
	}
}

func TestCancellingInSQLIsBoundToTheTransaction(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	db := pgtest.Open(t, url)
	for _, key := range []string{"a", "b", "c"} {
		p.declare(t, key, `{"events":["order.*"],"url":"https://shop.example.com/","due":"48h"}`)
	}
	id := p.fire(t, "1", `{"type":"order.placed","data":1}`).at("event.id")
	cancel := func(end, args string, want int) {
		t.Helper()
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := tx.QueryRow(t.Context(), `SELECT eventsvc.cancel('`+id+`'`+args+`)`).Scan(&n); err != nil || n != want {
			t.Errorf("cancelled %d, want %d: %v", n, want, err)
		}
		if _, err := tx.Exec(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		tx.Rollback(t.Context())
	}
	count := func() int { return p.call(t, "GET", "/v1/deliveries?status=cancelled", "").list("data") }
	if cancel("ROLLBACK", "", 3); count() != 0 {
		t.Errorf("%d cancelled by what was rolled back", count())
	}
	if cancel("COMMIT", ", receiver => 'b'", 1); count() != 1 {
		t.Errorf("%d cancelled, want 1", count())
	}
	if cancel("COMMIT", "", 2); count() != 3 {
		t.Errorf("%d cancelled, want 3", count())
	}
	cancel("COMMIT", "", 0)
	// One that is fired and cancelled before it is matched is owed to nobody.
	early := fired(t, db, `SELECT eventsvc.fire('order.placed', '1')`)
	if _, err := db.Exec(t.Context(), `SELECT eventsvc.cancel($1, 'a')`, early); sqlState(err) != "EV409" {
		t.Errorf("for one receiver, before: %v", err)
	}
	if _, err := db.Exec(t.Context(), `SELECT eventsvc.cancel($1)`, early); err != nil {
		t.Error(err)
	}
	if a := p.call(t, "GET", "/v1/status", ""); a.at("unmatched.waiting") != "0" {
		t.Errorf("%s", a.text)
	}
	if _, err := db.Exec(t.Context(), `SELECT eventsvc.cancel('dlv_x')`); sqlState(err) != "EV422" {
		t.Errorf("no event: %v", err)
	}
}

// A caller's role can fire and cancel, and nothing else of the service's.
func TestACallersRoleNeedsNothingButToFireAndCancel(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	role, as := shopRole(t, db, url)
	var id string
	for _, data := range []string{`'1'`, `'1'::json`, `'1'::jsonb`} {
		id = fired(t, as, `SELECT eventsvc.fire('a.b', `+data+`, key => 'k')`)
	}
	if _, err := as.Exec(t.Context(), `SELECT eventsvc.cancel($1)`, id); err != nil {
		t.Error(err)
	}
	for _, sql := range []string{
		`SELECT * FROM eventsvc.events`, `SELECT * FROM eventsvc.secrets`, `DELETE FROM eventsvc.owed`, `SELECT eventsvc.withdraw('{}')`, `SELECT eventsvc.new_id()`,
		`SELECT eventsvc.allow('` + role + `')`, `SELECT eventsvc.sql_producer()`, `CREATE TABLE eventsvc.x ()`,
	} {
		if _, err := as.Exec(t.Context(), sql); sqlState(err) != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	// Its keys are its own.
	if other := fired(t, db, `SELECT eventsvc.fire('a.b', '1', key => 'k')`); other == id {
		t.Error("two roles share a key")
	}
}

// Every id of the one is read by the other.
func TestIdsInSQLAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, pgtest.URL(t))
	for range 50 {
		id := event.NewID(time.Now())
		var text string
		var back [16]byte
		if err := db.QueryRow(t.Context(), `SELECT eventsvc.typeid('evt', $1), eventsvc.untypeid('evt', eventsvc.typeid('evt', $1))`, [16]byte(id)).Scan(&text, &back); err != nil {
			t.Fatal(err)
		}
		if text != id.Text(event.EventPrefix) || back != [16]byte(id) {
			t.Fatalf("%s is %s and %x", id.Text(event.EventPrefix), text, back)
		}
	}
	before := time.Now().Add(-time.Second)
	made, err := event.ParseID(event.EventPrefix, fired(t, db, `SELECT eventsvc.typeid('evt', eventsvc.new_id())`))
	if err != nil || made.Time().Before(before) || made.Time().After(time.Now().Add(time.Second)) || made[6]>>4 != 7 || made[8]>>6 != 2 {
		t.Errorf("made %x, %v", made, err)
	}
	for _, bad := range []string{"evt_", "dlv_01jxkg2c8zf3v9e4m6r7t8w9ya", "evt_81jxkg2c8zf3v9e4m6r7t8w9ya", "evt_01jxkg2c8zf3v9e4m6r7t8w9yai", "evt_01jxkg2c8zf3v9e4m6r7t8w9yu"} {
		var none *[16]byte
		if err := db.QueryRow(t.Context(), `SELECT eventsvc.untypeid('evt', $1)`, bad).Scan(&none); err != nil || none != nil {
			t.Errorf("%s is %x, %v", bad, none, err)
		}
	}
}

func TestManySessionsFireAtOnceAndEachEventIsOwedOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	q := start(t, url, nil, "relay")
	_ = q
	db := pgtest.Open(t, url)
	p.declare(t, "r", `{"events":["*"],"url":"https://shop.example.com/","due":"48h"}`)
	const sessions, each = 4, 100
	var under sync.WaitGroup
	for s := range sessions {
		under.Go(func() {
			for n := range each {
				// Each key by two sessions.
				if _, err := db.Exec(t.Context(), `SELECT eventsvc.fire('a.b', '1', key => $1)`, fmt.Sprint("k", s/2, "-", n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	under.Wait()
	eventually(t, func() bool { return p.call(t, "GET", "/v1/status", "").at("unmatched.waiting") == "0" }, func() string { return "not matched" })
	var events, owed int
	if err := db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM eventsvc.events), (SELECT count(*) FROM eventsvc.owed)`).Scan(&events, &owed); err != nil || events != sessions/2*each || owed != events {
		t.Errorf("%d events, %d owed, %v", events, owed, err)
	}
}
