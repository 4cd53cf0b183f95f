package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestSomeOfAReceiverOrATargetIsChanged(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, nil)
	p.declare(t, "r", `{"events":["a.*"],"url":"`+s.URL+`","max_attempts":7,"backoff_base":"5s","headers":{"X-A":"1","X-B":"2"},"on_failure":{"url":"`+s.URL+`/f"},"description":"old"}`)
	p.declare(t, "f", `{"events":["a.*"],"fan_out":true}`)
	p.call(t, "PUT", "/v1/receivers/f/targets/t", `{"url":"`+s.URL+`","tenant":"north","headers":{"X-A":"1"}}`)
	patch := func(path, body string, headers ...string) answer {
		t.Helper()
		return p.call(t, "PATCH", path, body, append([]string{"Content-Type", "application/merge-patch+json"}, headers...)...)
	}
	a := patch("/v1/receivers/r", `{"max_attempts":3,"backoff_base":null,"headers":{"X-A":null,"X-C":"3"},"on_failure":null,"description":"new"}`)
	if a.status != 200 || a.at("max_attempts") != "3" || a.at("backoff_base") != "2s" || a.at("headers.X-A") != "" || a.at("headers.X-B") != "2" || a.at("headers.X-C") != "3" ||
		a.at("on_failure") != "" || a.at("description") != "new" || a.at("url") != s.URL || a.at("version") != "2" || a.header.Get("ETag") != `"2"` || a.at("secret") != "" {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if again := patch("/v1/receivers/r", `{"max_attempts":3}`); again.at("version") != "2" {
		t.Errorf("what changes nothing makes a version: %s", again.text)
	}
	if a := p.call(t, "PATCH", "/v1/receivers/r", `{}`); a.status != 200 || a.at("version") != "2" {
		t.Errorf("as application/json: %d %s", a.status, a.text)
	}
	b := patch("/v1/receivers/f/targets/t", `{"tenant":null,"headers":{"X-D":"4"},"events":["a.b"]}`)
	if b.status != 200 || b.at("tenant") != "" || b.at("headers.X-A") != "1" || b.at("headers.X-D") != "4" || b.at("events.0") != "a.b" || b.at("url") != s.URL {
		t.Errorf("%d %s", b.status, b.text)
	}
	for _, c := range []struct {
		path, body string
		status     int
		pointer    string
	}{
		{"/v1/receivers/r", `{"max_atempts":3}`, 422, "/max_atempts"},
		{"/v1/receivers/r", `{"max_atempts":null}`, 422, "/max_atempts"},
		{"/v1/receivers/r", `{"max_attempts":0}`, 422, "/max_attempts"},
		{"/v1/receivers/r", `{"max_attempts":"3"}`, 422, "/max_attempts"},
		{"/v1/receivers/r", `{"events":null}`, 422, "/events"},
		{"/v1/receivers/r", `{"url":"http://[::1"}`, 422, "/url"},
		{"/v1/receivers/r", `{"headers":{"Host":"x"}}`, 422, "/headers/Host"},
		{"/v1/receivers/r", `{"max_attempts":3,"max_attempts":4}`, 422, "/max_attempts"},
		{"/v1/receivers/r", `[]`, 422, ""},
		{"/v1/receivers/r", `{`, 400, ""},
		{"/v1/receivers/none", `{}`, 404, ""},
		{"/v1/receivers/f/targets/t", `{"url":null}`, 422, "/url"},
		{"/v1/receivers/f/targets/none", `{}`, 404, ""},
		{"/v1/receivers/r/targets/none", `{}`, 404, ""},
	} {
		if a := patch(c.path, c.body); a.status != c.status || c.pointer != "" && a.at("errors.0.pointer") != c.pointer {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.text)
		}
	}
	if a := patch("/v1/receivers/r", `{"description":"x"}`, "If-Match", `"1"`); a.status != 412 {
		t.Errorf("at an old version: %d %s", a.status, a.text)
	}
	if a := patch("/v1/receivers/r", `{"description":"x"}`, "If-Match", `"2"`); a.status != 200 {
		t.Errorf("at its version: %d %s", a.status, a.text)
	}
	if a := p.call(t, "PATCH", "/v1/receivers/r", "x", "Content-Type", "text/plain"); a.status != 415 {
		t.Errorf("as text: %d %s", a.status, a.text)
	}
	// Two that patch at once both stand.
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			if a, err := p.try("PATCH", "/v1/receivers/r", fmt.Sprintf(`{"metadata":{"k%d":"v"}}`, n)); err != nil || a.status != 200 {
				t.Errorf("%d: %v %d %s", n, err, a.status, a.text)
			}
		})
	}
	all.Wait()
	if a := p.call(t, "GET", "/v1/receivers/r", ""); strings.Count(a.text, `"v"`) != 12 {
		t.Errorf("some are lost: %s", a.text)
	}
	// The secret is as it was: what is fired verifies by the one that was shown first.
	p.fire(t, "k", `{"type":"a.b","data":1}`)
	s.next(t)
}
