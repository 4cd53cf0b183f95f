package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// Each target is sent what its rate allows, and what waits for it is owed and not held.
func TestTargetsAreSentWhatTheirRatesAllow(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, nil)
	declared := p.declare(t, "hooks", `{"events":["a.b"],"fan_out":true,"rate_limit":"4/1s"}`)
	p.call(t, "PUT", "/v1/receivers/hooks/targets/slow", `{"url":"`+s.URL+`/slow"}`)
	own := p.call(t, "PUT", "/v1/receivers/hooks/targets/own", `{"url":"`+s.URL+`/own","rate_limit":"20/s"}`)
	p.declare(t, "free", `{"events":["a.b"],"url":"`+s.URL+`/free"}`)
	if declared.at("rate_limit") != "4/s" || own.at("rate_limit") != "20/s" {
		t.Errorf("declared: %s %s", declared.text, own.text)
	}
	for n := range 40 {
		p.fire(t, fmt.Sprint(n), `{"type":"a.b","data":1}`)
	}
	at := map[string][]time.Time{}
	for len(at["slow"]) < 13 {
		w := s.next(t)
		to := w.header.Get("Eventsvc-Receiver") + w.header.Get("Eventsvc-Target")
		to = strings.TrimPrefix(to, "hooks")
		at[to] = append(at[to], time.Now())
	}
	if a := p.call(t, "GET", "/v1/deliveries?target=slow&status=claimed", ""); a.list("data") > 1 {
		t.Errorf("what waits for its rate is claimed: %s", a.text)
	}
	// Three seconds have passed.
	if len(at["free"]) != 40 || len(at["own"]) != 40 {
		t.Errorf("%d of 40 came without a rate, and %d at 20/s", len(at["free"]), len(at["own"]))
	}
	// How exactly is the relay's to show: the way to here takes now more time, now less.
	for to, least := range map[string]time.Duration{"slow": 3 * time.Second, "own": 39 * time.Second / 20} {
		if took := at[to][len(at[to])-1].Sub(at[to][0]); took < least-500*time.Millisecond {
			t.Errorf("%s: %d came within %v", to, len(at[to]), took)
		}
	}
}

func TestADrainAndADeliverDoNotWaitForARate(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_TEST_MODE=true"}, "serve")
	s := open(t, nil)
	p.declare(t, "r", `{"events":["a.b"],"url":"`+s.URL+`","rate_limit":"1/24h"}`)
	p.fire(t, "first", `{"type":"a.b","data":1}`)
	s.next(t)
	second := p.fire(t, "second", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	if a := p.call(t, "POST", "/v1/deliveries/"+second+"/deliver", ""); a.status != 200 || a.at("status") != "succeeded" {
		t.Errorf("deliver: %d %s", a.status, a.text)
	}
	for n := range 20 {
		p.fire(t, fmt.Sprint(n), `{"type":"a.b","data":1}`)
	}
	if a := p.call(t, "POST", "/v1/testing/drain", ""); a.status != 200 || a.at("succeeded") != "20" {
		t.Errorf("drain: %d %s", a.status, a.text)
	}
	if a := p.call(t, "PATCH", "/v1/receivers/r", `{"rate_limit":null}`); a.status != 200 || a.at("rate_limit") != "" {
		t.Errorf("patched: %d %s", a.status, a.text)
	}
	p.fire(t, "last", `{"type":"a.b","data":1}`)
	for range 22 {
		s.next(t)
	}
}
