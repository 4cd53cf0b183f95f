package e2e

import (
	"strings"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// A filter decides when an event is fired, and again when it is replayed; what it cannot
// make sense of is refused when it is declared, or is no match.
func TestAReceiverIsOwedTheEventsThatMeetItsFilter(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, nil)
	p.declare(t, "large", `{"events":["order.*"],"url":"`+s.URL+`","filter":"event.data.total > 100"}`)
	p.declare(t, "hooks", `{"events":["order.*"],"fan_out":true,"filter":"event.data.total > 10"}`)
	if a := p.call(t, "PUT", "/v1/receivers/hooks/targets/gifts", `{"url":"`+s.URL+`","filter":"has(event.data.gift)"}`); a.status != 201 || a.at("filter") != "has(event.data.gift)" {
		t.Fatalf("%d %s", a.status, a.text)
	}
	fired := p.fire(t, "1", `{"type":"order.placed","data":{"total":50,"gift":"yes"}}`)
	if fired.list("deliveries") != 1 || fired.at("deliveries.0.target") != "gifts" {
		t.Errorf("got %s", fired.text)
	}
	if a := p.fire(t, "2", `{"type":"order.placed","data":{"total":150}}`); a.list("deliveries") != 1 || a.at("deliveries.0.receiver") != "large" {
		t.Errorf("got %s", a.text)
	}
	if a := p.fire(t, "3", `{"type":"order.placed","data":[]}`); a.status != 201 || a.list("deliveries") != 0 {
		t.Errorf("got %s", a.text)
	}
	if a := p.fire(t, "4", `{"type":"order.placed","data":{"total":"much"}}`); a.status != 201 || a.list("deliveries") != 0 {
		t.Errorf("got %s", a.text)
	}
	if page := p.call(t, "GET", "/metrics", "").text; !strings.Contains(page, `eventsvc_filter_errors_total{receiver="large"} 1`) {
		t.Error("the metrics do not tell of the error")
	}
	if log := p.log.String(); !strings.Contains(log, "a filter failed on an event") || strings.Contains(log, "much") {
		t.Errorf("the log: %s", log)
	}

	if a := p.call(t, "PATCH", "/v1/receivers/large", `{"filter":"event.data.total > 40"}`); a.status != 200 || a.at("filter") != "event.data.total > 40" {
		t.Errorf("patch: %d %s", a.status, a.text)
	}
	if a := p.call(t, "POST", "/v1/events/"+fired.at("event.id")+"/replay", ""); a.at("added") != "1" {
		t.Errorf("replay: %d %s", a.status, a.text)
	}
	a := p.call(t, "PUT", "/v1/receivers/wrong", `{"events":["*"],"url":"`+s.URL+`","filter":"event.data.total >"}`)
	if a.status != 422 || a.at("errors.0.pointer") != "/filter" || !strings.Contains(a.at("errors.0.message"), "event.data.total >\n                  ^") {
		t.Errorf("a filter that breaks off: %d %s", a.status, a.text)
	}
	if a := p.call(t, "PATCH", "/v1/receivers/hooks/targets/gifts", `{"filter":"evnt"}`); a.status != 422 || a.at("errors.0.pointer") != "/filter" {
		t.Errorf("patch of a target: %d %s", a.status, a.text)
	}
}

func TestAFilterCanBeTriedOnAnEvent(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	id := p.fire(t, "1", `{"type":"order.placed","data":{"total":50}}`).at("event.id")
	ask := func(body string) answer { t.Helper(); return p.call(t, "POST", "/v1/filters/check", body) }
	for body, want := range map[string]string{
		`{"filter":"event.data.total == 50","event_id":"` + id + `"}`:                                                             "true",
		`{"filter":"event.data.gift","event_id":"` + id + `"}`:                                                                    "false",
		`{"filter":"event.metadata.a == 'b'","event":{"type":"a.b","data":1,"metadata":{"a":"b"}}}`:                               "true",
		`{"filter":"event.occurred_at.getFullYear() == 2026","event":{"type":"a","data":1,"occurred_at":"2026-01-02T00:00:00Z"}}`: "true",
	} {
		if a := ask(body); a.status != 200 || a.at("match") != want || a.at("error") != "" {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	if a := ask(`{"filter":"event.data > 'a'","event":{"type":"a","data":1}}`); a.status != 200 || a.at("match") != "false" || a.at("error") == "" {
		t.Errorf("%d %s", a.status, a.text)
	}
	for body, pointer := range map[string]string{
		`{"filter":"event.","event":{"type":"a","data":1}}`:                       "/filter",
		`{"event":{"type":"a","data":1}}`:                                         "/filter",
		`{"filter":"true"}`:                                                       "/event",
		`{"filter":"true","event":{"type":"a","data":1},"event_id":"` + id + `"}`: "/event",
		`{"filter":"true","event":{"type":"a"}}`:                                  "/event/data",
		`{"filter":"true","event":{"data":1}}`:                                    "/event/type",
	} {
		if a := ask(body); a.status != 422 || a.at("errors.0.pointer") != pointer {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	if a := ask(`{"filter":"true","event_id":"evt_01jxkg2c8zf3v9e4m6r7t8w9ya"}`); a.status != 404 {
		t.Errorf("%d %s", a.status, a.text)
	}
}
