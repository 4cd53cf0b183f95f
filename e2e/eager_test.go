package e2e

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// apiOnly is a process without a relay.
var apiOnly = []string{"EVENTSVC_RELAY_WORKERS=0"}

func TestAnEagerReceiverIsCalledByTheProcessThatFired(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), apiOnly, "serve")
	s := open(t, nil)
	declared := p.declare(t, "quick", `{"events":["a.b"],"url":"`+s.URL+`/quick","eager":true}`)
	p.declare(t, "other", `{"events":["a.b"],"url":"`+s.URL+`/other"}`)
	if declared.at("eager") != "true" {
		t.Errorf("shown as %s", declared.text)
	}
	fired := p.fire(t, "k", `{"type":"a.b","data":{}}`)
	if w := s.next(t); w.header.Get("Eventsvc-Receiver") != "quick" || w.header.Get("Eventsvc-Attempt") != "1" {
		t.Errorf("called %v", w.header)
	}
	for _, i := range []string{"0", "1"} {
		id := fired.at("deliveries." + i + ".id")
		if fired.at("deliveries."+i+".receiver") == "other" {
			if a := p.call(t, "GET", "/v1/deliveries/"+id, ""); a.at("status") != "pending" || a.at("attempts") != "0" {
				t.Errorf("the other: %s", a.text)
			}
			continue
		}
		if a := p.settled(t, id, "succeeded"); !strings.HasPrefix(a.at("attempt_log.0.worker"), "eager:") || a.at("attempts") != "1" {
			t.Errorf("by %s", a.text)
		}
	}
	if a := p.call(t, "GET", "/metrics", ""); !strings.Contains(a.text, `eventsvc_eager_total{outcome="tried"} 1`) {
		t.Error("it is not counted")
	}
	if a := p.call(t, "PATCH", "/v1/receivers/quick", `{"eager":null}`); a.at("eager") != "false" {
		t.Errorf("put off: %d %s", a.status, a.text)
	}
}

// A relay makes the attempts that follow.
func TestARelayGoesOnWhereAnEagerAttemptFailed(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, apiOnly, "serve")
	start(t, url, nil, "relay")
	s := open(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(500)
		}
	})
	p.declare(t, "r", `{"events":["a.b"],"url":"`+s.URL+`","eager":true,"backoff_base":"10ms"}`)
	id := p.fire(t, "k", `{"type":"a.b","data":{}}`).at("deliveries.0.id")
	if a := p.settled(t, id, "succeeded"); a.at("attempts") != "2" || a.list("attempt_log") != 2 || a.at("attempt_log.0.http_status") != "500" {
		t.Errorf("%s", a.text)
	}
}

// What a transaction fires is eager as well, and one of site task without a url is nobody's
// to request of.
func TestATransactionIsEagerToo(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), apiOnly, "serve")
	s := open(t, nil)
	p.declare(t, "r", `{"events":["a.b"],"url":"`+s.URL+`","eager":true}`)
	if a := p.call(t, "POST", "/v1/transactions", `{"events":[{"type":"a.b","data":1},{"type":"a.b","data":2}]}`, "Idempotency-Key", "k"); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	s.next(t)
	s.next(t)
	if a := p.call(t, "PUT", "/v1/receivers/pulled", `{"events":["a.b"],"site":"task","eager":true}`); a.status != 422 || !strings.Contains(a.text, "/eager") {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func (p *process) fireAndWait(t testing.TB, key, body, prefer string) (answer, time.Duration) {
	t.Helper()
	began := time.Now()
	a := p.call(t, "POST", "/v1/events", body, "Idempotency-Key", key, "Prefer", prefer)
	if a.status != 201 {
		t.Fatalf("fire %s: %d %s", key, a.status, a.text)
	}
	return a, time.Since(began)
}

// standings are the statuses that an answer shows, by receiver.
func (a answer) standings() map[string]string {
	all := map[string]string{}
	deliveries, _ := a.body["deliveries"].([]any)
	for _, d := range deliveries {
		d := d.(map[string]any)
		all[d["receiver"].(string)] = d["status"].(string)
	}
	return all
}

func TestAFireThatPrefersToWaitShowsWhatBecameOfItsDeliveries(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), apiOnly, "serve")
	s := open(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/failing":
			w.WriteHeader(500)
		case "/gone":
			w.WriteHeader(410)
		}
	})
	for _, name := range []string{"well", "failing", "gone"} {
		p.declare(t, name, `{"events":["a.b"],"url":"`+s.URL+`/`+name+`","eager":true}`)
	}
	p.declare(t, "other", `{"events":["a.*"],"url":"`+s.URL+`/other"}`)
	a, took := p.fireAndWait(t, "k", `{"type":"a.b","data":{}}`, "wait=20")
	want := map[string]string{"well": "succeeded", "failing": "failed", "gone": "dead", "other": "pending"}
	if !maps.Equal(a.standings(), want) || a.header.Get("Preference-Applied") != "wait" || took > 10*time.Second {
		t.Errorf("after %v, %q: %s", took, a.header.Get("Preference-Applied"), a.text)
	}
	// A replay answers at once what was stored.
	pending := map[string]string{"well": "pending", "failing": "pending", "gone": "pending", "other": "pending"}
	if a, _ := p.fireAndWait(t, "k", `{"type":"a.b","data":{}}`, "wait=20"); !maps.Equal(a.standings(), pending) || a.header.Get("Idempotent-Replayed") != "true" || a.header.Get("Preference-Applied") != "" {
		t.Errorf("replayed: %v %s", a.header, a.text)
	}
	// Without a preference, or with one that is none, nothing is different.
	for key, prefer := range map[string]string{"none": "return=minimal", "bad": "wait=soon", "long": "wait=31"} {
		if a, _ := p.fireAndWait(t, key, `{"type":"a.b","data":{}}`, prefer); !maps.Equal(a.standings(), pending) || a.header.Get("Preference-Applied") != "" {
			t.Errorf("%s: %v %s", prefer, a.header, a.text)
		}
	}
	// There is nobody to wait for.
	for body, n := range map[string]int{`{"type":"a.c","data":{}}`: 1, `{"type":"b.c","data":{}}`: 0} {
		if a, took := p.fireAndWait(t, body[9:12], body, "wait=20"); a.list("deliveries") != n || a.header.Get("Preference-Applied") != "wait" || took > 10*time.Second {
			t.Errorf("after %v: %v %s", took, a.header, a.text)
		}
	}
}

func TestASlowReceiverHoldsNoAnswerLongerThanItPrefersToWait(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), apiOnly, "serve")
	release := make(chan struct{})
	s := open(t, func(int, http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	p.declare(t, "slow", `{"events":["a.b"],"url":"`+s.URL+`","eager":true,"timeout":"60s"}`)
	a, took := p.fireAndWait(t, "k", `{"type":"a.b","data":{}}`, "wait=1")
	if a.standings()["slow"] != "claimed" || a.header.Get("Preference-Applied") != "wait" || took < time.Second || took > 15*time.Second {
		t.Errorf("after %v: %v %s", took, a.header, a.text)
	}
}
