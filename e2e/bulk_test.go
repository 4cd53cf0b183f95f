package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestOneBadEventOfABulkHurtsNoOther(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	p.declare(t, "r", `{"events":["a.b"],"url":"https://shop.example.com/"}`)
	elements := []string{
		`{"idempotency_key":"1","type":"a.b","data": {"x" :1}}`,
		`{"idempotency_key":"2","type":"A.B","data":1}`,
		`{"idempotency_key":"3","type":"a.b","data":"` + strings.Repeat("x", 256<<10-1) + `"}`,
		`7`,
		`{"data": {"x" :1},"type":"a.b","idempotency_key":"1"}`,
		`{"idempotency_key":"1","type":"a.b","data": {"x" :2}}`,
		`{"idempotency_key":"5","typ":"a.b","data":1}`,
		`{"idempotency_key":"6","type":"quiet","data":null}`,
		`{"type":"quiet","data":1}`,
		`{"idempotency_key":"größe","type":"quiet","data":1}`,
	}
	wants := []string{
		"201   a.b", "422 validation-failed /1/type ", "413 payload-too-large  ", "422 validation-failed /3 ", "201 true  a.b", "422 idempotency-key-reused  ",
		"422 validation-failed /6/typ ", "201   quiet", "422 validation-failed /8/idempotency_key ", "422 validation-failed /9/idempotency_key ",
	}
	check := func(a answer, replayed bool) {
		t.Helper()
		if a.status != 200 || a.list("results") != len(elements) {
			t.Fatalf("%d %s", a.status, a.text)
		}
		for i, want := range wants {
			at := fmt.Sprint("results.", i, ".")
			got := a.at(at+"status") + " " + a.at(at+"problem.code") + a.at(at+"replayed") + " " + a.at(at+"problem.errors.0.pointer") + " " + a.at(at+"event.type")
			if replayed {
				want = strings.Replace(want, "201  ", "201 true ", 1)
			}
			if got != want {
				t.Errorf("event %d: %q, want %q", i, got, want)
			}
		}
		if a.at("results.4.event.id") != a.at("results.0.event.id") || a.at("results.0.deliveries.0.receiver") != "r" {
			t.Errorf("got %s", a.text)
		}
	}
	first := p.call(t, "POST", "/v1/events/bulk", "["+strings.Join(elements, " ,\n")+"]")
	check(first, false)
	// The same again, a line each: a newline inside an element would break it.
	again := p.call(t, "POST", "/v1/events/bulk", strings.Join(elements, "\n\n")+"\r\n", "Content-Type", "application/x-ndjson")
	check(again, true)
	if again.at("results.0.event.id") != first.at("results.0.event.id") {
		t.Error("a repeat is another event")
	}
	// A bulk's key is the key of a fire.
	if a := p.fire(t, "6", `{"type":"quiet","data":null}`); a.status != 201 || a.at("event.id") != first.at("results.7.event.id") || a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("fired alone: %d %s", a.status, a.text)
	}
	if n := p.call(t, "GET", "/v1/events", "").list("data"); n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
}

func TestABulkIsBounded(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	many := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"idempotency_key":"%d","type":"a","data":%d}`, i, i)
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	if a := p.call(t, "POST", "/v1/events/bulk", many(1000)); a.status != 200 || strings.Count(a.text, `"status":201`) != 1000 {
		t.Errorf("a thousand: %d %.300s", a.status, a.text)
	}
	for name, c := range map[string]struct {
		body, contentType string
		status            int
		says              string
	}{
		"too many":       {many(1001), "application/json", 422, "1001 events; at most 1000"},
		"too many lines": {strings.Repeat("1\n", 1001), "application/x-ndjson", 422, "1001 events; at most 1000"},
		"too large":      {`["` + strings.Repeat("x", 16<<20) + `"]`, "application/json", 413, "too large"},
		"an object":      {`{}`, "application/json", 422, "application/x-ndjson"},
		"cut off":        {`[{`, "application/json", 400, "byte"},
		"xml":            {`[]`, "application/xml", 415, "application/json"},
	} {
		if a := p.call(t, "POST", "/v1/events/bulk", c.body, "Content-Type", c.contentType); a.status != c.status || !strings.Contains(a.text, c.says) {
			t.Errorf("%s: %d %.300s", name, a.status, a.text)
		}
	}
	if a := p.call(t, "POST", "/v1/events/bulk", "[]", "Idempotency-Key", "k"); a.status != 400 || !strings.Contains(a.text, "/v1/transactions") {
		t.Errorf("under a key: %d %s", a.status, a.text)
	}
	if a := p.call(t, "POST", "/v1/events/bulk", "[]"); a.status != 200 || a.list("results") != 0 {
		t.Errorf("nothing: %d %s", a.status, a.text)
	}
}
