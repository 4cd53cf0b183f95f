package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestADrainRunsTheRealPathToItsEndWithoutWaiting(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_TEST_MODE=true"}, "serve")
	good := open(t, nil)
	bad := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	throttled := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(503)
	})
	busy := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(429)
	})
	p.declare(t, "good", `{"events":["a.b"],"url":"`+good.URL+`"}`)
	p.declare(t, "bad", `{"events":["a.b"],"url":"`+bad.URL+`","max_attempts":5,"backoff_base":"1h"}`)
	p.declare(t, "busy", `{"events":["a.b"],"url":"`+busy.URL+`"}`)
	p.declare(t, "throttled", `{"events":["a.b"],"url":"`+throttled.URL+`","lane":"mail","count_deferrals":false,"give_up_after":"2d"}`)
	p.declare(t, "besides", `{"events":["other"],"url":"`+good.URL+`","lane":"mail"}`)
	p.declare(t, "later", `{"events":["a.b"],"url":"`+good.URL+`","due":"48h"}`)
	p.fire(t, "k", `{"type":"a.b","data":1}`)
	a := p.call(t, "POST", "/v1/testing/drain", "")
	if a.status != 200 || a.at("owed") != "3" {
		t.Errorf("got %d %s", a.status, a.text)
	}
	for receiver, want := range map[string]string{"good": "succeeded", "bad": "dead", "busy": "failed", "throttled": "failed", "later": "pending"} {
		if d := p.call(t, "GET", "/v1/deliveries?receiver="+receiver, ""); d.at("data.0.status") != want {
			t.Errorf("%s: %s, want %s", receiver, d.text, want)
		}
	}
	// The relay may have met the deferral once before the drain did.
	if len(good.got) != 1 || len(bad.got) != 5 || len(busy.got) > 2 || len(throttled.got) > 2 {
		t.Errorf("%d, %d, %d and %d requests; want 1, 5 and at most 2", len(good.got), len(bad.got), len(busy.got), len(throttled.got))
	}
	// The next drain begins without the pause of the last one.
	p.fire(t, "k2", `{"type":"other","data":1}`)
	if a := p.call(t, "POST", "/v1/testing/drain", ""); a.status != 200 {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if d := p.call(t, "GET", "/v1/deliveries?receiver=throttled", ""); d.at("data.0.attempts") != "0" {
		t.Errorf("a deferral spent an attempt: %s", d.text)
	}
	a = p.call(t, "POST", "/v1/testing/drain", `{"now":"`+time.Now().Add(49*time.Hour).UTC().Format(time.RFC3339)+`"}`)
	if d := p.call(t, "GET", "/v1/deliveries?receiver=later", ""); a.status != 200 || d.at("data.0.status") != "succeeded" {
		t.Errorf("two days on: %s, %s", a.text, d.text)
	}
	if a := p.call(t, "POST", "/v1/testing/reset", ""); a.status != 200 {
		t.Errorf("reset: %d %s", a.status, a.text)
	}
	for _, list := range []string{"events", "deliveries", "receivers"} {
		if a := p.call(t, "GET", "/v1/"+list, ""); a.list("data") != 0 {
			t.Errorf("%s after a reset: %s", list, a.text)
		}
	}
	if a := p.fire(t, "k", `{"type":"a.b","data":1}`); a.header.Get("Idempotent-Replayed") != "" || a.list("deliveries") != 0 {
		t.Errorf("after a reset: %s", a.text)
	}
}

func TestTestModeIsNotThereUnlessAskedFor(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	for _, path := range []string{"/v1/testing/drain", "/v1/testing/reset"} {
		if a := p.call(t, "POST", path, ""); a.status != 404 || a.at("code") != "not-found" {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
}
