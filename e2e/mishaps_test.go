package e2e

import (
	"strings"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// API-01, API-03, API-09, SIGN-01: what went wrong for others is refused by name here.
func TestARefusalNamesTheLimitOrTheField(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	const http = `"url":"https://shop.example.com/"`
	p.declare(t, "fan", `{"events":["*"],"fan_out":true}`)
	p.declare(t, "one", `{"events":["*"],`+http+`}`)
	huge := strings.Repeat("x", 3<<20)
	for name, c := range map[string]struct {
		call, body          string
		status              int
		code, pointer, says string
	}{
		"an event":                   {"POST /v1/events", `{"type":"a.b","data":"` + huge + `"}`, 413, "payload-too-large", "", "bytes"},
		"a receiver":                 {"PUT /v1/receivers/r", `{"events":["*"],` + http + `,"description":"` + huge + `"}`, 413, "payload-too-large", "", " 65536 bytes"},
		"no secret":                  {"PUT /v1/receivers/r", `{"events":["*"],` + http + `,"secret":""}`, 422, "validation-failed", "/secret", ""},
		"no secret again":            {"PUT /v1/receivers/one", `{"events":["*"],` + http + `,"secret":""}`, 422, "validation-failed", "/secret", ""},
		"no secret of a patch":       {"PATCH /v1/receivers/one", `{"secret":""}`, 422, "validation-failed", "/secret", ""},
		"no secret of a fan-out":     {"PUT /v1/receivers/r", `{"events":["*"],"fan_out":true,"secret":""}`, 422, "validation-failed", "/secret", "fan_out"},
		"no secret of a target":      {"PUT /v1/receivers/fan/targets/t", `{` + http + `,"secret":""}`, 422, "validation-failed", "/secret", ""},
		"no secret of a rotation":    {"POST /v1/receivers/one/secret/rotate", `{"secret":""}`, 422, "validation-failed", "/secret", ""},
		"a prefix alone":             {"PUT /v1/receivers/r", `{"events":["*"],` + http + `,"secret":"whsec_"}`, 422, "validation-failed", "/secret", ""},
		"a secret of 8 bytes":        {"PUT /v1/receivers/r", `{"events":["*"],` + http + `,"secret":"whsec_AAAAAAAAAAA="}`, 422, "validation-failed", "/secret", "24"},
		"a secret of 100 bytes":      {"PUT /v1/receivers/r", `{"events":["*"],` + http + `,"secret":"whsec_` + strings.Repeat("A", 134) + `=="}`, 422, "validation-failed", "/secret", "64"},
		"events of no type":          {"GET /v1/events?type=", "", 422, "invalid-parameter", "", "type"},
		"events of two types":        {"GET /v1/events?type=a,b", "", 422, "invalid-parameter", "", "type"},
		"events of a pattern":        {"GET /v1/events?type=order.*", "", 422, "invalid-parameter", "", "type"},
		"deliveries of no such type": {"GET /v1/deliveries?type=Order..Placed", "", 422, "invalid-parameter", "", "type"},
		"types in brackets":          {"GET /v1/events?type[]=a", "", 422, "invalid-parameter", "", "type"},
		"a type misspelt":            {"GET /v1/events?typ=a", "", 422, "invalid-parameter", "", "did you mean type"},
		"a page beyond its bound":    {"GET /v1/deliveries?limit=201", "", 422, "invalid-parameter", "", "200"},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		kind := "application/json"
		if method == "PATCH" {
			kind = "application/merge-patch+json"
		}
		a := p.call(t, method, path, c.body, "Idempotency-Key", "k", "Content-Type", kind)
		if a.status != c.status || a.at("code") != c.code || c.pointer != "" && a.at("errors.0.pointer") != c.pointer || !strings.Contains(a.text, c.says) {
			t.Errorf("%s: %d %s; want %d %s at %q saying %q", name, a.status, a.text, c.status, c.code, c.pointer, c.says)
		}
	}
	if a := p.call(t, "GET", "/v1/receivers", ""); a.list("data") != 2 {
		t.Errorf("something was declared: %s", a.text)
	}
}
