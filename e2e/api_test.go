package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestBadInputGetsAClearAnswer(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	const events, receiver = "POST /v1/events", "PUT /v1/receivers/r"
	url := `"url":"https://shop.example.com/"`
	deep := strings.Repeat("[", 300) + strings.Repeat("]", 300)
	exact := `{"type":"a.b","data":"` + strings.Repeat("x", 256<<10-2) + `"}`
	for name, c := range map[string]struct {
		call, body    string
		status        int
		code, pointer string
		says          string
	}{
		"cut off":             {events, `{"type":"a.b"`, 400, "malformed-json", "", "byte"},
		"empty":               {events, ``, 400, "malformed-json", "", "empty"},
		"two values":          {events, `{"type":"a.b","data":1}{}`, 400, "malformed-json", "", "more than one"},
		"not an object":       {events, `[]`, 422, "validation-failed", "", "object"},
		"wrong type":          {events, `{"type":7,"data":1}`, 422, "validation-failed", "/type", "string"},
		"unknown field":       {events, `{"type":"a.b","data":1,"occuredAt":"x"}`, 422, "validation-failed", "/occuredAt", "did you mean occurred_at"},
		"shifted case":        {events, `{"type":"a.b","TYPE":"<x>","data":1}`, 422, "validation-failed", "/TYPE", "did you mean type"},
		"given twice":         {events, `{"type":"a.b","type":"c.d","data":1}`, 422, "validation-failed", "/type", "twice"},
		"nested unknown":      {events, `{"type":"a.b","data":1,"actor":{"key":"k","lable":"x"}}`, 422, "validation-failed", "/actor/lable", "did you mean label"},
		"too deep":            {events, `{"type":"a.b","data":` + deep + `}`, 422, "validation-failed", "/data", "levels"},
		"no data":             {events, `{"type":"a.b"}`, 422, "validation-failed", "/data", "required"},
		"bad type":            {events, `{"type":"a..b","data":1}`, 422, "validation-failed", "/type", "empty part"},
		"bad time":            {events, `{"type":"a.b","data":1,"occurred_at":"today"}`, 422, "validation-failed", "/occurred_at", "RFC 3339"},
		"no UTF-8":            {events, "{\"type\":\"a.b\",\"data\":1,\"subject\":\"\xff\"}", 400, "malformed-json", "", "UTF-8"},
		"too large":           {events, strings.Replace(exact, "xx", "xxx", 1), 413, "payload-too-large", "", "262144"},
		"far too large":       {events, `{"type":"a.b","data":"` + strings.Repeat("x", 600<<10) + `"}`, 413, "payload-too-large", "", ""},
		"no destination":      {receiver, `{"events":["a.b"]}`, 422, "validation-failed", "/url", "required"},
		"no events":           {receiver, `{` + url + `}`, 422, "validation-failed", "/events", "required"},
		"bad pattern":         {receiver, `{"events":["a.b","a..b"],` + url + `}`, 422, "validation-failed", "/events/1", "empty part"},
		"bad wildcard":        {receiver, `{"events":["*.x"],` + url + `}`, 422, "validation-failed", "/events/0", "last part"},
		"cap below base":      {receiver, `{"events":["*"],` + url + `,"backoff_base":"2m","backoff_cap":"1m"}`, 422, "validation-failed", "/backoff_cap", "below backoff_base"},
		"lease at its bound":  {receiver, `{"events":["*"],` + url + `,"timeout":"10s","lease":"15s"}`, 422, "validation-failed", "/lease", "timeout 10s by more than 5s"},
		"no duration":         {receiver, `{"events":["*"],` + url + `,"timeout":"soon"}`, 422, "validation-failed", "/timeout", "no duration"},
		"duration no string":  {receiver, `{"events":["*"],` + url + `,"timeout":10}`, 422, "validation-failed", "/timeout", "duration"},
		"no rate":             {receiver, `{"events":["*"],` + url + `,"rate_limit":"1.5/s"}`, 422, "validation-failed", "/rate_limit", "10/s, 300/m or 5/10s"},
		"rate too high":       {receiver, `{"events":["*"],` + url + `,"rate_limit":"100001/s"}`, 422, "validation-failed", "/rate_limit", "above 100000/s"},
		"rate no string":      {receiver, `{"events":["*"],` + url + `,"rate_limit":10}`, 422, "validation-failed", "/rate_limit", "a rate such as"},
		"no rate of a target": {"PUT /v1/receivers/r/targets/t", `{` + url + `,"rate_limit":"0/s"}`, 422, "validation-failed", "/rate_limit", "from 1"},
		"deferrals unbounded": {receiver, `{"events":["*"],` + url + `,"count_deferrals":false}`, 422, "validation-failed", "/count_deferrals", "give_up_after"},
		"reserved header":     {receiver, `{"events":["*"],` + url + `,"headers":{"WEBHOOK-ID":"x"}}`, 422, "validation-failed", "/headers/WEBHOOK-ID", "sender sets"},
		"header with CR LF":   {receiver, `{"events":["*"],` + url + `,"headers":{"X-A":"a\r\nb"}}`, 422, "validation-failed", "/headers/X-A", "visible ASCII"},
		"bad secret":          {receiver, `{"events":["*"],` + url + `,"secret":"whsec_hunter2"}`, 422, "validation-failed", "/secret", "base64"},
		"metadata address":    {receiver, `{"events":["*"],"url":"http://169.254.169.254/"}`, 422, "validation-failed", "/url", "EVENTSVC_ALLOW_PRIVATE"},
		"bad key":             {"PUT /v1/receivers/a%20b", `{"events":["*"],` + url + `}`, 422, "invalid-parameter", "", "key"},
		"unknown event":       {"GET /v1/events/evt_01jxkg2c8zf3v9e4m6r7t8w9ya", ``, 404, "not-found", "", "event"},
		"no event's id":       {"GET /v1/events/7", ``, 404, "not-found", "", "event"},
		"unknown delivery":    {"GET /v1/deliveries/dlv_01jxkg2c8zf3v9e4m6r7t8w9ya", ``, 404, "not-found", "", "delivery"},
		"unknown receiver":    {"GET /v1/receivers/none", ``, 404, "not-found", "", "receiver"},
		"unknown address":     {"GET /v1/nothing", ``, 404, "not-found", "", "/docs"},
		"method":              {"DELETE /v1/events", ``, 405, "method-not-allowed", "", "GET, POST"},
		"unknown parameter":   {"GET /v1/deliveries?statsu=dead", ``, 422, "invalid-parameter", "", "did you mean status"},
		"parameter twice":     {"GET /v1/deliveries?type=a&type=b", ``, 422, "invalid-parameter", "", "once"},
		"bad parameter":       {"GET /v1/deliveries?status=lost", ``, 422, "invalid-parameter", "", "status"},
		"limit 0":             {"GET /v1/events?limit=0", ``, 422, "invalid-parameter", "", "limit"},
		"limit 201":           {"GET /v1/events?limit=201", ``, 422, "invalid-parameter", "", "limit"},
		"no cursor":           {"GET /v1/events?cursor=abc", ``, 400, "invalid-cursor", "", "cursor"},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		a := p.call(t, method, path, c.body, "Idempotency-Key", "k")
		if a.status != c.status || a.at("code") != c.code || c.pointer != "" && a.at("errors.0.pointer") != c.pointer || !strings.Contains(a.text, c.says) {
			t.Errorf("%s: %d %s; want %d %s at %q saying %q", name, a.status, a.text, c.status, c.code, c.pointer, c.says)
		}
		if a.header.Get("Content-Type") != "application/problem+json" || a.at("request_id") == "" || a.at("request_id") != a.header.Get("X-Request-Id") || strings.Contains(a.text, "hunter2") {
			t.Errorf("%s: %v %s", name, a.header, a.text)
		}
	}
	if a := p.call(t, "DELETE", "/v1/events", ""); a.header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow is %q", a.header.Get("Allow"))
	}
	for _, c := range []string{"text/plain", "application/x-www-form-urlencoded", "application/xml"} {
		a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1}`, "Idempotency-Key", "k", "Content-Type", c)
		if a.status != 415 || a.at("code") != "unsupported-media-type" || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", c, a.status, a.text)
		}
	}
	for _, list := range []string{"events", "deliveries", "receivers"} {
		if got := p.call(t, "GET", "/v1/"+list, ""); got.list("data") != 0 {
			t.Errorf("something was stored: %s", got.text)
		}
	}
	// And at the bounds, and with every key still free.
	p.fire(t, "k", exact)
	p.declare(t, "r", `{"events":["*"],`+url+`,"timeout":"10s","lease":"15001ms","backoff_base":"1m","backoff_cap":"60s"}`)
}

func TestListsPageByCursor(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	p.declare(t, "r", `{"events":["*"],"url":"https://shop.example.com/"}`)
	for n := range 5 {
		p.fire(t, fmt.Sprint("k", n), `{"type":"a.b","data":1,"tenant":"t"}`)
	}
	p.fire(t, "other", `{"type":"c.d","data":1}`)
	for _, list := range []string{"/v1/events?type=a.b&limit=2", "/v1/deliveries?type=a.b&limit=2&receiver=r&status=pending&lane=default&tenant=t"} {
		seen, pages, next := map[string]bool{}, 0, list
		for next != "" {
			a := p.call(t, "GET", next, "")
			for i := range a.list("data") {
				seen[a.at(fmt.Sprint("data.", i, ".id"))] = true
			}
			pages++
			next = ""
			if cursor := a.at("next_cursor"); cursor != "" {
				next = list + "&cursor=" + cursor
				if !strings.Contains(a.header.Get("Link"), `rel="next"`) {
					t.Errorf("Link is %q", a.header.Get("Link"))
				}
				if other := p.call(t, "GET", strings.Replace(next, "type=a.b", "type=c.d", 1), ""); other.status != 400 || other.at("code") != "invalid-cursor" {
					t.Errorf("a cursor opened another list: %d %s", other.status, other.text)
				}
			}
		}
		if len(seen) != 5 || pages != 3 {
			t.Errorf("%s: %d entries on %d pages, want 5 on 3", list, len(seen), pages)
		}
	}
}

func TestReceiversAreResources(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	const body = `{"events":["order.*","order.placed"],"url":"https://shop.example.com/","backoff_base":"120s","backoff_cap":"30m","max_attempts":10}`
	first := p.declare(t, "r", body)
	if first.at("curve.longest") != "3h" || first.at("curve.mean") != "1h30m" || first.at("curve.ceilings.4") != "30m" || first.at("events.1") != "" {
		t.Errorf("got %s", first.text)
	}
	again := p.call(t, "PUT", "/v1/receivers/r", body)
	if again.status != 200 || again.header.Get("ETag") != `"1"` || again.at("secret") != "" {
		t.Errorf("the same again: %d %s", again.status, again.text)
	}
	changed := strings.Replace(body, "10}", "9}", 1)
	if a := p.call(t, "PUT", "/v1/receivers/r", changed, "If-Match", `"7"`); a.status != 412 {
		t.Errorf("a stale If-Match: %d %s", a.status, a.text)
	}
	if a := p.call(t, "PUT", "/v1/receivers/r", changed, "If-Match", `"1"`); a.status != 200 || a.header.Get("ETag") != `"2"` {
		t.Errorf("changed: %d %v", a.status, a.header)
	}
	if a := p.call(t, "POST", "/v1/receivers/r/pause", ""); a.at("paused") != "true" {
		t.Errorf("paused: %s", a.text)
	}
	p.call(t, "POST", "/v1/receivers/r/resume", "")
	p.fire(t, "k", `{"type":"order.placed","data":1}`)
	if a := p.call(t, "DELETE", "/v1/receivers/r", ""); a.status != 409 || !strings.Contains(a.text, "?owed=orphan") {
		t.Errorf("deleted while owed: %d %s", a.status, a.text)
	}
	if a := p.call(t, "DELETE", "/v1/receivers/r?owed=orphan", ""); a.status != 204 {
		t.Errorf("deleted: %d %s", a.status, a.text)
	}
	if a := p.call(t, "GET", "/v1/deliveries?status=orphaned", ""); a.list("data") != 1 {
		t.Errorf("got %s", a.text)
	}
	if a := p.call(t, "GET", "/v1/receivers", ""); a.list("data") != 0 {
		t.Errorf("still listed: %s", a.text)
	}
	if a := p.call(t, "PUT", "/v1/receivers/r", body); a.status != 201 || a.at("secret") == first.at("secret") {
		t.Errorf("declared again: %d %s", a.status, a.text)
	}
}

func TestTheGateAsksForAKey(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_AUTH=on", "EVENTSVC_ADMIN_KEY=esk_0123456789abcdef"}, "serve")
	for _, headers := range [][]string{nil, {"Authorization", "Bearer esk_wrong"}, {"Authorization", "Basic esk_0123456789abcdef"}} {
		a := p.call(t, "GET", "/v1/events", "", headers...)
		if a.status != 401 || a.at("code") != "unauthorized" || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%v: %d %s %v", headers, a.status, a.text, a.header)
		}
	}
	if a := p.call(t, "GET", "/v1/events", "", "Authorization", "Bearer esk_0123456789abcdef"); a.status != 200 {
		t.Errorf("with the key: %d %s", a.status, a.text)
	}
	if a := p.call(t, "GET", "/livez", ""); a.status != 200 {
		t.Errorf("/livez asks for a key: %d", a.status)
	}
}

func TestAPageOfAnotherSiteCannotCallAnOpenAPI(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1}`, "Idempotency-Key", "k", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example.com")
	if a.status != 403 || a.at("code") != "forbidden" || p.call(t, "GET", "/v1/events", "").list("data") != 0 {
		t.Errorf("%d %s", a.status, a.text)
	}
	p.fire(t, "k", `{"type":"a.b","data":1}`)
}

func TestPagesWorkWithoutANetwork(t *testing.T) {
	t.Parallel()
	p, s := start(t, pgtest.URL(t), nil, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.settled(t, p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id"), "succeeded")
	for path, says := range map[string]string{
		"/livez": "ok", "/readyz": "ok", "/readyz?verbose": "[+]database ok", "/problems/validation-failed": "breaks a rule",
		"/metrics": `eventsvc_deliveries_attempts_total{class="",outcome="succeeded",status="succeeded"} 1`,
	} {
		if a := p.call(t, "GET", path, ""); a.status != 200 || !strings.Contains(a.text, says) {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	spec, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if a := p.call(t, "GET", "/openapi.yaml", ""); a.text != string(spec) {
		t.Error("/openapi.yaml is not the one of the repository; run make openapi")
	}
	printed := spawn(t, t.TempDir(), nil, "openapi")
	if code := printed.exit(t); code != 0 || printed.out.String() != string(spec) {
		t.Errorf("eventsvc openapi: exit code %d, and not what /openapi.yaml says", code)
	}
	docs := p.call(t, "GET", "/docs", "")
	assets := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(docs.text, -1)
	if docs.status != 200 || len(assets) < 3 {
		t.Fatalf("/docs: %d %s", docs.status, docs.text)
	}
	for _, asset := range assets {
		if !strings.HasPrefix(asset[1], "/docs/") {
			t.Errorf("/docs loads %s", asset[1])
			continue
		}
		if a := p.call(t, "GET", asset[1], ""); a.status != 200 {
			t.Errorf("%s: %d", asset[1], a.status)
		}
	}
}

// What no text in the tables can hold, and what no answer can show, is refused.
func TestOddTextAndTimesAreRefusedNotFailedOn(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	for _, path := range []string{"/v1/events?subject=%00", "/v1/events?type=%FF", "/v1/receivers/%00", "/v1/correlations/%FF", "/v1/event-types/%00", "/v1/deliveries?receiver=%00"} {
		if a := p.call(t, "GET", path, ""); a.status != 422 && a.status != 404 {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	if a := p.call(t, "POST", "/v1/deliveries/requeue", `{"receiver":"\u0000"}`); a.status != 422 || a.at("errors.0.pointer") != "/receiver" {
		t.Errorf("NUL in a filter: %d %s", a.status, a.text)
	}
	for _, at := range []string{"9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+23:59", "0001-01-01T00:00:00Z"} {
		if a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1,"occurred_at":"`+at+`"}`, "Idempotency-Key", at); a.status != 422 || a.at("errors.0.pointer") != "/occurred_at" {
			t.Errorf("%s: %d %s", at, a.status, a.text)
		}
	}
	p.fire(t, "k", `{"type":"a.b","data":1,"occurred_at":"9999-12-31T23:59:59Z"}`)
	if a := p.call(t, "GET", "/v1/events", ""); a.status != 200 || a.list("data") != 1 {
		t.Errorf("the list: %d %s", a.status, a.text)
	}
	if a := p.call(t, "PUT", "/v1/receivers/none", `{"events":["*"],"url":"http://127.0.0.1:1/"}`, "If-Match", "*"); a.status != 412 {
		t.Errorf("If-Match: * where there is nothing: %d %s", a.status, a.text)
	}
	if a := p.call(t, "PUT", "/v1/event-types/a.b", `{"schema":{"minimum":0}}`); a.status != 201 {
		t.Fatal(a.text)
	}
	if a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1e1000001}`, "Idempotency-Key", "huge"); a.status != 422 || a.at("errors.0.pointer") != "/data" {
		t.Errorf("a huge number: %d %s", a.status, a.text)
	}
}
