package e2e

import (
	"net/http"
	"strings"
	"testing"

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
