package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// P1, P3, T17 to T19, LOST-07, LOST-09.
func TestADatabaseThatIsKilledUnderLoadCostsTimeOnly(t *testing.T) {
	t.Parallel()
	db := ownDatabase(t)
	p, s := start(t, db.URL(), []string{"EVENTSVC_AUTO_MIGRATE=true", "EVENTSVC_POLL=200ms"}, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","timeout":"1s","lease":"6500ms"}`)
	load := p.load(t, 4, "k", s)
	load.more(t, 50)

	for range 3 {
		run(t, db.URL(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'eventsvc/%'`)
		load.more(t, 50)
	}
	for range 2 {
		db.crash()
		eventually(t, func() bool { return p.call(t, "GET", "/readyz", "").status == 503 }, func() string { return "/readyz stays green" })
		db.begin(t)
		load.more(t, 50)
		eventually(t, func() bool { return p.call(t, "GET", "/readyz", "").status == 200 }, func() string { return "/readyz stays red" })
	}

	// Long enough for the fourth wait.
	before := len(p.log.String())
	db.end()
	var waits string
	eventually(t, func() bool { waits = claimWaits(p.log.String()[before:]); return strings.HasSuffix(waits, "8s") }, func() string { return "claims wait " + waits })
	if waits != "1s 2s 4s 8s" {
		t.Errorf("claims were tried again after %s, want 1s 2s 4s 8s", waits)
	}
	if a := p.call(t, "GET", "/livez", ""); a.status != 200 {
		t.Errorf("/livez: %d", a.status)
	}
	db.begin(t)
	load.more(t, 50)
	load.delivered(t)
	p.nothingOwed(t)
}

// claimWaits are the waits after failed claims that a log tells of.
func claimWaits(log string) string {
	var waits []string
	for _, line := range lines(log) {
		var said struct {
			Msg string
			In  time.Duration
		}
		if json.Unmarshal([]byte(line), &said) == nil && strings.Contains(said.Msg, "cannot be claimed from") {
			waits = append(waits, said.In.String())
		}
	}
	return strings.Join(waits, " ")
}

// T107: with a poll that is an hour away.
func TestAListenerThatConnectsAgainLooksForWhatItMissed(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p, s := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve"), open(t, nil)
	relay := start(t, url, []string{"EVENTSVC_POLL=1h"}, "relay")
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.fire(t, "heard", `{"type":"a.b","data":1}`)
	s.next(t)
	run(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'eventsvc/listen' AND datname = current_database()`)
	relay.log.await(t, "no wake-ups from other processes for now")
	p.fire(t, "missed", `{"type":"a.b","data":2}`)
	if w := s.next(t); !strings.Contains(string(w.body), `"data":2`) {
		t.Errorf("got %s", w.body)
	}
}

// Connections that fall silent, and new ones too, without a word to either end.
func TestABlackHoleCostsTimeOnly(t *testing.T) {
	t.Parallel()
	wire := pgtest.StartWire(t, pgtest.URL(t))
	p, s := start(t, wire.URL(), []string{"EVENTSVC_POLL=200ms"}, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","timeout":"1s","lease":"6500ms"}`)
	load := p.load(t, 4, "k", s)
	load.more(t, 50)

	wire.Freeze()
	eventually(t, func() bool { return len(load.answers()) > 0 }, func() string { return "fires are still accepted" })
	eventually(t, func() bool { return p.call(t, "GET", "/readyz", "").status == 503 }, func() string { return "/readyz stays green" })
	p.log.await(t, "the ledger cannot be claimed from")
	if a := p.call(t, "GET", "/v1/deliveries", ""); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("a list: %d %s", a.status, a.text)
	}
	wire.Thaw()
	load.more(t, 50)
	eventually(t, func() bool { return p.call(t, "GET", "/readyz", "").status == 200 }, func() string { return "/readyz stays red" })
	load.delivered(t)
}

// DB-01: sessions that stay read-only for ever, as on a server that was demoted, while
// new ones can write.
func TestConnectionsToAServerThatWasDemotedAreLetGo(t *testing.T) {
	t.Parallel()
	db := ownDatabase(t)
	p, s := start(t, db.URL(), []string{"EVENTSVC_AUTO_MIGRATE=true"}, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	load := p.load(t, 8, "k", s)
	load.more(t, 50)
	run(t, db.URL(), `ALTER DATABASE eventsvc SET default_transaction_read_only = off`)
	run(t, db.URL(), `ALTER SYSTEM SET default_transaction_read_only = on`)
	run(t, db.URL(), `SELECT pg_reload_conf()`)
	load.more(t, 200)
	// A server that is read-only for everybody is not written to, and said to be away.
	// A session that was just beginning may have read what held before and not be seen yet,
	// so it is looked for once more when new ones are refused.
	const end = `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name LIKE 'eventsvc/%'`
	run(t, db.URL(), `ALTER DATABASE eventsvc SET default_transaction_read_only = on`)
	run(t, db.URL(), end)
	eventually(t, func() bool { return p.call(t, "GET", "/readyz", "").status == 503 }, func() string { return "/readyz stays green" })
	run(t, db.URL(), end)
	if a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1}`, "Idempotency-Key", "read-only"); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("a fire: %d %s", a.status, a.text)
	}
	run(t, db.URL(), `ALTER DATABASE eventsvc SET default_transaction_read_only = off`)
	load.more(t, 50)
	load.delivered(t)
}

// P1: a batch of which nothing could be written is no success, and can be sent again.
func TestABatchWithoutADatabaseIsAnsweredAsOneFireWouldBe(t *testing.T) {
	t.Parallel()
	db := ownDatabase(t)
	p := start(t, db.URL(), []string{"EVENTSVC_AUTO_MIGRATE=true", "EVENTSVC_RELAY_WORKERS=0"}, "serve")
	const one = `{"specversion":"1.0","source":"/s","id":"1","type":"a.b","data":1}`
	send := func(body string) answer { return p.call(t, "POST", "/v1/events", body, "Content-Type", batched) }
	db.crash()
	if a := send("[" + one + "," + strings.Replace(one, `"1",`, `"2",`, 1) + "]"); a.status != 503 || a.at("code") != "service-unavailable" || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := send("[" + one + ",7]"); a.status != 200 || a.at("results.0.status") != "503" || a.at("results.1.status") != "422" {
		t.Errorf("beside one that is refused: %d %s", a.status, a.text)
	}
	db.begin(t)
	eventually(t, func() bool { return send("["+one+"]").at("results.0.status") == "201" }, func() string { return "the batch is never taken" })
}
