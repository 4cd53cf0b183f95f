package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestAReceiverIsTestedWithoutADelivery(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_DISABLE_AFTER_DEAD=1"}, "serve")
	status := make(chan int, 100)
	s := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "private")
		w.WriteHeader(<-status)
		w.Write([]byte("\x00\xff"))
	})
	declared := p.declare(t, "r", `{"events":["a.*"],"url":"`+s.URL+`","headers":{"X-Own":"1"},"format":"raw","max_attempts":1}`)
	oracle, err := standardwebhooks.NewWebhook(declared.at("secret"))
	if err != nil {
		t.Fatal(err)
	}
	p.call(t, "POST", "/v1/receivers/r/pause", "")
	p.call(t, "PUT", "/v1/event-types/a.b", `{"example":{"order":  7}}`)

	status <- 200
	a := p.call(t, "POST", "/v1/receivers/r/test", "")
	w := s.next(t)
	if a.status != 200 || a.at("verdict") != "success" || a.at("http_status") != "200" || a.at("type") != "eventsvc.test" || a.at("error") != "" ||
		a.at("response.body_base64") == "" && a.at("response.body") == "" || strings.Contains(a.text, "private") {
		t.Fatalf("%d %s", a.status, a.text)
	}
	id := w.header.Get("Webhook-Id")
	if !strings.HasPrefix(id, "test_") || id != a.at("webhook_id") || w.header.Get("Eventsvc-Test") != "true" || w.header.Get("X-Own") != "1" ||
		w.header.Get("Eventsvc-Event-Type") != "eventsvc.test" || !strings.Contains(string(w.body), "test") {
		t.Errorf("sent %v %s", w.header, w.body)
	}
	if err := oracle.Verify(w.body, w.header); err != nil {
		t.Error(err)
	}
	for body, sent := range map[string]string{`{"type":"a.b"}`: `{"order":  7}`, `{"type":"a.b","data":{ "x" : 1e400 }}`: `{ "x" : 1e400 }`, `{"data":null}`: `null`} {
		status <- 204
		if a := p.call(t, "POST", "/v1/receivers/r/test", body); a.status != 200 || a.at("verdict") != "success" {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
		if w := s.next(t); string(w.body) != sent {
			t.Errorf("%s sends %s", body, w.body)
		}
	}
	for code, verdict := range map[int]string{500: "failure", 410: "permanent", 302: "failure"} {
		status <- code
		if a := p.call(t, "POST", "/v1/receivers/r/test", ""); a.status != 200 || a.at("verdict") != verdict || a.at("error") == "" || a.at("class") == "" {
			t.Errorf("%d: %d %s", code, a.status, a.text)
		}
		s.next(t)
	}
	// A target, which is not switched off by it.
	p.declare(t, "f", `{"events":["a.*"],"fan_out":true}`)
	p.call(t, "PUT", "/v1/receivers/f/targets/t", `{"url":"`+s.URL+`"}`)
	status <- 410
	if a := p.call(t, "POST", "/v1/receivers/f/targets/t/test", ""); a.at("verdict") != "permanent" {
		t.Errorf("%d %s", a.status, a.text)
	}
	s.next(t)
	if a := p.call(t, "GET", "/v1/receivers/f/targets/t", ""); a.at("disabled") != "false" || a.at("dead_in_a_row") != "0" {
		t.Errorf("it counted: %s", a.text)
	}
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/v1/receivers/none/test", "", 404}, {"/v1/receivers/f/targets/none/test", "", 404}, {"/v1/receivers/f/test", "", 409},
		{"/v1/receivers/r/test", `{"type":"A"}`, 422}, {"/v1/receivers/r/test", `{"dat":1}`, 422}, {"/v1/receivers/r/test", `{`, 400},
		{"/v1/receivers/r/test", `{"data":"` + strings.Repeat("x", event.MaxData) + `"}`, 413},
	} {
		if a := p.call(t, "POST", c.path, c.body); a.status != c.status {
			t.Errorf("%s %.40s: %d %s", c.path, c.body, a.status, a.text)
		}
	}
	if a := p.call(t, "GET", "/v1/deliveries", ""); a.list("data") != 0 {
		t.Errorf("deliveries: %s", a.text)
	}
	if a := p.call(t, "GET", "/v1/events", ""); a.list("data") != 0 {
		t.Errorf("events: %s", a.text)
	}
}

// SSRF-09: a test goes where a delivery may go, and nowhere else; and it has an end.
func TestATestKeepsThePolicyAndTheTime(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	open := start(t, url, nil, "serve")
	open.declare(t, "r", `{"events":["a.*"],"url":"`+s.URL+`","timeout":"1s"}`)
	began := time.Now()
	if a := open.call(t, "POST", "/v1/receivers/r/test", ""); a.at("class") != "timeout" || time.Since(began) > 8*time.Second {
		t.Errorf("%d %s", a.status, a.text)
	}
	s.next(t)
	closed := start(t, url, []string{"EVENTSVC_ALLOW_PRIVATE=false"}, "serve")
	if a := closed.call(t, "POST", "/v1/receivers/r/test", ""); a.at("class") != "guarded" || !strings.Contains(a.at("error"), "EVENTSVC_ALLOW_PRIVATE") {
		t.Errorf("%d %s", a.status, a.text)
	}
	if len(s.got) != 0 {
		t.Error("it was sent")
	}
}
