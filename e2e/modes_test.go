package e2e

import (
	"net/http"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// told waits until a process has counted so many of an outcome of on_commit receivers.
func (p *process) told(t testing.TB, outcome, n string) {
	t.Helper()
	line := `eventsvc_on_commit_total{outcome="` + outcome + `"} ` + n + "\n"
	var text string
	eventually(t, func() bool {
		text = p.call(t, "GET", "/metrics", "").text
		return strings.Contains(text, line)
	}, func() string { return "never counted " + line })
}

func TestAnOnCommitReceiverIsToldOnceAndOwedNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	p := start(t, url, nil, "serve")
	status := make(chan int, 100)
	s := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(<-status)
	})
	declared := p.declare(t, "r", `{"events":["a.*"],"url":"`+s.URL+`","mode":"on_commit","format":"raw","filter":"event.data.n > 0"}`)
	p.declare(t, "other", `{"events":["a.*"],"url":"`+s.URL+`","mode":"on_commit","tenant":"acme"}`)
	if declared.at("mode") != "on_commit" || declared.at("max_attempts") != "1" {
		t.Errorf("shown as %s", declared.text)
	}
	if a := p.call(t, "GET", "/v1/catalogue", ""); a.at("receivers.1.mode") != "on_commit" {
		t.Errorf("catalogued as %s", a.text)
	}
	oracle, err := standardwebhooks.NewWebhook(declared.at("secret"))
	if err != nil {
		t.Fatal(err)
	}

	seen := map[string]bool{}
	heard := func(what, id string) {
		t.Helper()
		w := s.next(t)
		if err := oracle.Verify(w.body, w.header); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		name := w.header.Get("Webhook-Id")
		if w.header.Get("Eventsvc-Event-Id") != id || string(w.body) != `{"n":  1}` || seen[name] || !strings.HasPrefix(name, "dlv_") {
			t.Errorf("%s: %s of %v", what, w.body, w.header)
		}
		seen[name] = true
		if a := p.call(t, "GET", "/v1/deliveries/"+name, ""); a.status != 404 {
			t.Errorf("%s: a delivery is there: %s", what, a.text)
		}
	}

	// Fired by POST, alone and together, and in SQL; whatever it answers, once.
	status <- 200
	a := p.fire(t, "k", `{"type":"a.b","data":{"n":  1}}`)
	if a.list("deliveries") != 0 {
		t.Errorf("owed: %s", a.text)
	}
	id := a.at("event.id")
	heard("POST", id)
	p.told(t, "ok", "1")
	p.fire(t, "k", `{"type":"a.b","data":{"n":1}}`)
	p.fire(t, "unwanted", `{"type":"a.b","data":{"n":0}}`)
	p.fire(t, "suppressed", `{"type":"a.b","data":{"n":1},"suppress":{"reason":"import"}}`)
	if a := p.call(t, "POST", "/v1/events/"+id+"/replay", ""); a.status != 200 {
		t.Errorf("replay: %d %s", a.status, a.text)
	}
	status <- 503
	a = p.call(t, "POST", "/v1/transactions", `{"events":[{"type":"a.b","data":{"n":  1}}]}`, "Idempotency-Key", "together")
	heard("together", a.at("events.0.event.id"))
	p.log.await(t, "receiver r, told after the commit, failed event "+a.at("events.0.event.id")+" with retry_after")
	if a = p.call(t, "POST", "/v1/transactions", `{"prepare":true,"check":{"url":"`+s.URL+`/check","secret":"`+checkSecret+`"},"events":[{"type":"a.b","data":{"n":  1}}]}`, "Idempotency-Key", "prepared"); a.status != 201 {
		t.Fatalf("prepare: %d %s", a.status, a.text)
	}
	status <- 410
	a = p.call(t, "POST", "/v1/transactions/"+a.at("transaction.id")+"/commit", "")
	heard("prepared", a.at("events.0.event.id"))
	status <- 204
	heard("SQL", fired(t, db, `SELECT eventsvc.fire('a.b', '{"n":  1}', key => 'sql')`))
	p.told(t, "ok", "2")
	p.told(t, "failed", "2")
	if n := count(t, db, `SELECT (SELECT count(*) FROM eventsvc.owed) + (SELECT count(*) FROM eventsvc.settled)`); n != 0 {
		t.Errorf("%d rows", n)
	}

	// What is fired while it is paused is dropped.
	p.call(t, "POST", "/v1/receivers/r/pause", "")
	p.fire(t, "paused", `{"type":"a.b","data":{"n":1}}`)
	p.told(t, "dropped", "1")
	p.call(t, "POST", "/v1/receivers/r/resume", "")
	status <- 200
	heard("resumed", p.fire(t, "resumed", `{"type":"a.b","data":{"n":  1}}`).at("event.id"))
	p.told(t, "ok", "3")
	select {
	case w := <-s.got:
		t.Errorf("told once more: %s of %v", w.body, w.header)
	default:
	}
	if a := p.call(t, "PATCH", "/v1/receivers/r", `{"lane":"mail"}`, "Content-Type", "application/merge-patch+json"); a.status != 422 || a.at("errors.0.pointer") != "/lane" {
		t.Errorf("a lane: %d %s", a.status, a.text)
	}
}

func TestAnInlineReceiverVetoesAnEventAndTheKeyIsNotSpent(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	p := start(t, url, nil, "serve")
	status := make(chan int, 100)
	s := open(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		select {
		case code := <-status:
			w.WriteHeader(code)
			w.Write([]byte("private"))
		case <-r.Context().Done():
		}
	})
	declared := p.declare(t, "guard", `{"events":["a.*"],"url":"`+s.URL+`","mode":"inline","format":"raw","filter":"event.data.n > 0"}`)
	p.declare(t, "acme", `{"events":["a.*"],"url":"`+s.URL+`","mode":"inline","tenant":"acme"}`)
	if declared.at("mode") != "inline" || declared.at("timeout") != "2s" {
		t.Errorf("shown as %s", declared.text)
	}
	oracle, err := standardwebhooks.NewWebhook(declared.at("secret"))
	if err != nil {
		t.Fatal(err)
	}
	stored := func() int { return count(t, db, `SELECT count(*) FROM eventsvc.events`) }
	post := func(path, key, body string) answer {
		t.Helper()
		return p.call(t, "POST", path, body, "Idempotency-Key", key)
	}
	vetoed := func(what string, a answer, why string) {
		t.Helper()
		if a.status != 409 || a.at("code") != "vetoed" || !strings.Contains(a.at("detail"), "receiver guard") || !strings.Contains(a.at("detail"), why) || strings.Contains(a.text, "private") {
			t.Errorf("%s: %d %s", what, a.status, a.text)
		}
	}

	const body = `{"type":"a.b","data":{"n":  1}}`
	for code, why := range map[int]string{409: "it answered 409", 302: "it answered 302", 503: "it answered 503"} {
		status <- code
		vetoed(why, post("/v1/events", "k", body), why)
		s.next(t)
	}
	vetoed("silence", post("/v1/events", "k", body), "did not answer within its timeout")
	s.next(t)
	status <- 500
	if a := p.call(t, "POST", "/v1/events/bulk", `[{"type":"a.b","data":{"n":1},"idempotency_key":"k"},{"type":"a.b","data":{"n":0},"idempotency_key":"k0"}]`); !strings.Contains(a.text, "vetoed") || stored() != 1 {
		t.Errorf("in bulk: %d %s", a.status, a.text)
	}
	s.next(t)
	p.call(t, "POST", "/v1/receivers/guard/pause", "")
	vetoed("paused", post("/v1/events", "k", body), "it is paused")
	p.call(t, "POST", "/v1/receivers/guard/resume", "")

	// The key is not spent, and once it is, nobody is asked about it.
	status <- 200
	a := post("/v1/events", "k", body)
	w := s.next(t)
	if a.status != 201 || a.list("deliveries") != 0 || w.header.Get("Eventsvc-Event-Id") != a.at("event.id") || string(w.body) != `{"n":  1}` {
		t.Fatalf("agreed: %d %s; asked %s of %v", a.status, a.text, w.body, w.header)
	}
	if err := oracle.Verify(w.body, w.header); err != nil {
		t.Error(err)
	}
	if again := post("/v1/events", "k", body); again.status != 201 || again.at("event.id") != a.at("event.id") || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %d %s", again.status, again.text)
	}
	if a := post("/v1/events", "k", `{"type":"a.b","data":{"n":2}}`); a.status != 422 || a.at("code") != "idempotency-key-reused" {
		t.Errorf("another event: %d %s", a.status, a.text)
	}
	if a := post("/v1/events", "unwanted", `{"type":"a.b","data":{"n":0}}`); a.status != 201 {
		t.Errorf("unwanted: %d %s", a.status, a.text)
	}

	// T137: votes are taken when it is prepared, never at the commit.
	held := `{"prepare":true,"check":{"url":"` + s.URL + `/check","secret":"` + checkSecret + `"},"events":[{"type":"a.c","data":{"n":0}},{"type":"a.b","data":{"n":1}}]}`
	before := stored()
	status <- 409
	a = post("/v1/transactions", "held", held)
	vetoed("prepare", a, "events/1")
	s.next(t)
	status <- 204
	a = post("/v1/transactions", "held", held)
	s.next(t)
	if again := post("/v1/transactions", "held", held); a.status != 201 || again.at("transaction.id") != a.at("transaction.id") || stored() != before {
		t.Errorf("prepare: %d %s; again %s", a.status, a.text, again.text)
	}
	if a = p.call(t, "POST", "/v1/transactions/"+a.at("transaction.id")+"/commit", ""); a.status != 200 || stored() != before+2 {
		t.Errorf("commit: %d %s", a.status, a.text)
	}
	status <- 400
	vetoed("together", post("/v1/transactions", "together", `{"events":[{"type":"a.b","data":{"n":1}}]}`), "it answered 400")
	s.next(t)

	// SQL cannot ask, and so refuses.
	if _, err := db.Exec(t.Context(), `SELECT eventsvc.fire('a.b', '{"n":1}', key => 'sql')`); sqlState(err) != "EV409" || !strings.Contains(err.Error(), "over HTTP") {
		t.Errorf("in SQL: %v", err)
	}
	select {
	case w := <-s.got:
		t.Errorf("asked once more: %s of %v", w.body, w.header)
	default:
	}
}
