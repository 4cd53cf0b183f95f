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
	a = p.call(t, "POST", "/v1/transactions", `{"prepare":true,"events":[{"type":"a.b","data":{"n":  1}}]}`, "Idempotency-Key", "prepared")
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
