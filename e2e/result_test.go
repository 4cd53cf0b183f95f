package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// A receiver answers with what follows from the event. It is fired with the record of its
// success: once, however often the receiver was called.
func TestAnAnswerFiresWhatFollowsWithItsAcknowledgement(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	answers := map[string]string{
		"/ship":    `{"fire":[{"type":"order.shipped","data":{"n" : 1.0},"subject":"order/1","metadata":{"a":"b"}},{"type":"quiet","data":2,"tenant":"zeta"}]}`,
		"/wrong":   `{"fire":[{"type":"quiet","data":1},{"type":"Order","data":1}]}`,
		"/unknown": `{"fires":[]}`, "/text": `yes`, "/none": `{"fire":[]}`, "/plain": `{"fire":[{"type":"quiet","data":1}]}`,
		"/long": `{"fire":[{"type":"quiet","data":"` + strings.Repeat("x", 600<<10) + `"}]}`, "/many": `{"fire":[` + strings.Repeat(`{"type":"quiet","data":1},`, 100) + `{"type":"quiet","data":1}]}`,
		"/schema": `{"fire":[{"type":"order.paid","data":{}}]}`,
	}
	s := open(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/plain" {
			w.Header().Set("Content-Type", "application/vnd.eventsvc.result+json; charset=utf-8")
		}
		fmt.Fprint(w, answers[r.URL.Path])
	})
	p.call(t, "PUT", "/v1/event-types/order.paid", `{"schema":{"required":["total"]}}`)
	for path := range answers {
		p.declare(t, path[1:], `{"events":["go`+strings.ReplaceAll(path, "/", ".")+`"],"url":"`+s.URL+path+`","max_attempts":1}`)
	}
	p.declare(t, "shipped", `{"events":["order.shipped"],"url":"https://shop.example.com/","due":"48h"}`)
	deliver := func(path string) answer {
		t.Helper()
		a := p.fire(t, path, `{"type":"go.`+path[1:]+`","data":1,"tenant":"acme","correlation_id":"chain"}`)
		eventually(t, func() bool {
			d := p.call(t, "GET", "/v1/deliveries/"+a.at("deliveries.0.id"), "")
			return d.at("status") == "succeeded" || d.at("status") == "dead"
		}, func() string { return "no end" })
		return a
	}
	told := deliver("/ship")
	list := p.call(t, "GET", "/v1/events?type=order.shipped", "")
	if list.list("data") != 1 || list.at("data.0.causation_id") != told.at("event.id") || list.at("data.0.correlation_id") != "chain" || list.at("data.0.tenant") != "acme" ||
		list.at("data.0.subject") != "order/1" || list.at("data.0.metadata.a") != "b" {
		t.Errorf("fired %s", list.text)
	}
	if a := p.call(t, "GET", "/v1/events/"+list.at("data.0.id"), ""); a.at("deliveries.0.receiver") != "shipped" {
		t.Errorf("owed %s", a.text)
	}
	if a := p.call(t, "GET", "/v1/events?type=quiet&tenant=zeta", ""); a.list("data") != 1 {
		t.Errorf("fired %s", a.text)
	}
	// A replay has a webhook-id of its own, and is told anew; a delivery of the same is not.
	if a := p.call(t, "POST", "/v1/events/"+told.at("event.id")+"/replay", ""); a.at("reopened") != "1" {
		t.Errorf("%s", a.text)
	}
	eventually(t, func() bool { return p.call(t, "GET", "/v1/events?type=order.shipped", "").list("data") == 2 }, func() string { return "nothing more was fired" })

	for path, says := range map[string]string{
		"/wrong": "/fire/1/type", "/unknown": "fires is not known", "/text": "no JSON object", "/long": "longer than 524288 bytes", "/many": "up to 100", "/schema": "/fire/0/data",
	} {
		a := deliver(path)
		d := p.call(t, "GET", "/v1/deliveries/"+a.at("deliveries.0.id"), "")
		if d.at("status") != "dead" || d.at("attempt_log.0.class") != "protocol" || !strings.Contains(d.at("last_error"), says) || d.at("attempt_log.0.http_status") != "200" {
			t.Errorf("%s: %s", path, d.text)
		}
	}
	for _, path := range []string{"/none", "/plain"} {
		a := deliver(path)
		if d := p.call(t, "GET", "/v1/deliveries/"+a.at("deliveries.0.id"), ""); d.at("status") != "succeeded" {
			t.Errorf("%s: %s", path, d.text)
		}
	}
	if a := p.call(t, "GET", "/v1/events?type=quiet&tenant=acme", ""); a.list("data") != 0 {
		t.Errorf("what was refused, or not asked for, was fired: %s", a.text)
	}
}

// Targets of a fan-out receiver are strangers': they fire nothing.
func TestATargetsAnswerFiresNothing(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.eventsvc.result+json")
		fmt.Fprint(w, `{"fire":[{"type":"quiet","data":1}]}`)
	})
	p.declare(t, "hooks", `{"events":["go"],"fan_out":true}`)
	p.call(t, "PUT", "/v1/receivers/hooks/targets/a", `{"url":"`+s.URL+`"}`)
	a := p.fire(t, "1", `{"type":"go","data":1}`)
	p.settled(t, a.at("deliveries.0.id"), "succeeded")
	if a := p.call(t, "GET", "/v1/events?type=quiet", ""); a.list("data") != 0 {
		t.Errorf("fired %s", a.text)
	}
}
