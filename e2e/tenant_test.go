package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// tenancy is a service with two tenants. Both have a key with every scope that a tenant's
// may have, receivers, targets at the fan-out receiver of the whole service, and an event
// with deliveries, all under the same names.
type tenancy struct {
	*process
	shop        *shop
	north, east string            // keys
	ids         map[string]string // of north's things, by the parameter that takes them
	all         []string
}

const tenantScopes = `["events:write","read","receivers:write","deliveries:write"]`

func settle(t testing.TB) *tenancy {
	t.Helper()
	y := &tenancy{process: start(t, pgtest.URL(t), append([]string{"EVENTSVC_ALLOW_PRIVATE=true", "EVENTSVC_SECRET_KEY=" + strings.Repeat("A", 43) + "="}, asked...), "serve")}
	y.shop = open(t, func(_ int, w http.ResponseWriter, r *http.Request) { w.WriteHeader(410) })
	y.north, _ = y.issue(t, `{"name":"north","tenant":"north","scopes":`+tenantScopes+`}`)
	y.east, _ = y.issue(t, `{"name":"east","tenant":"east","scopes":`+tenantScopes+`}`)
	y.must(t, operatorKey, "PUT", "/v1/receivers/webhooks", `{"events":["order.*"],"fan_out":true}`)
	y.must(t, operatorKey, "PUT", "/v1/receivers/billing", `{"events":["order.*"],"url":"`+y.shop.URL+`/billing-internal"}`)
	y.must(t, operatorKey, "PUT", "/v1/receivers/given", `{"events":["bill.*"],"url":"`+y.shop.URL+`","tenant":"north"}`)
	for _, key := range []string{y.north, y.east} {
		y.must(t, key, "PUT", "/v1/receivers/hooks", `{"events":["order.*"],"url":"`+y.shop.URL+`/own","description":"`+key[len(key)-6:]+`"}`)
		y.must(t, key, "PUT", "/v1/receivers/many", `{"events":["ship.*"],"fan_out":true}`)
		y.must(t, key, "PUT", "/v1/receivers/webhooks/targets/main", `{"url":"`+y.shop.URL+`/target"}`)
	}
	fired := y.must(t, y.north, "POST", "/v1/events", `{"type":"order.placed","data":1,"correlation_id":"chain-of-north"}`, "Idempotency-Key", "k")
	if fired.at("event.tenant") != "north" || fired.list("deliveries") != 3 {
		t.Fatalf("fired: %s", fired.text)
	}
	y.ids = map[string]string{"evt": fired.at("event.id"), "chain": "chain-of-north"}
	for i := range 3 {
		id := fired.at(fmt.Sprint("deliveries.", i, ".id"))
		y.all = append(y.all, id)
		if fired.at(fmt.Sprint("deliveries.", i, ".receiver")) == "hooks" {
			y.ids["dlv"] = id
		}
		eventually(t, func() bool { return y.bearing(t, operatorKey, "GET", "/v1/deliveries/"+id, "").at("status") == "dead" }, func() string { return "not dead: " + id })
	}
	return y
}

func (y *tenancy) must(t testing.TB, key, method, path, body string, headers ...string) answer {
	t.Helper()
	a := y.bearing(t, key, method, path, body, headers...)
	if a.status >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, a.status, a.text)
	}
	return a
}

// bodies are what operations take that need a body; the others do without.
var bodies = map[string]string{
	"put-receiver": `{"events":["a.b"],"url":"https://shop.example.com/x"}`, "put-target": `{"url":"https://shop.example.com/x"}`,
	"patch-receiver": `{"description":"x"}`, "patch-target": `{"description":"x"}`, "rename-receiver": `{"key":"renamed"}`,
	"import-targets": `{"targets":[{"target":"more","url":"https://shop.example.com/x"}]}`,
	"put-event-type": `{"description":"x"}`,
}

// varying is what differs between any two answers, or is what was asked for.
var varying = regexp.MustCompile(`"request_id":"[^"]*"|"(created|updated)_at":"[^"]*"|whsec_[A-Za-z0-9+/=]*`)

// AUTH-02: whatever is asked about a thing of another tenant's, the answer is that for a
// thing that is not there.
func TestATenantIsToldOfAnothersThingsWhatItIsToldOfNothing(t *testing.T) {
	t.Parallel()
	y := settle(t)
	before := y.state(t)
	const unknown = "01jxkg2c8zf3v9e4m6r7t8w9ya"
	foreign := map[string][]string{
		"{key}":    {"given", url.PathEscape("north/hooks"), url.PathEscape("north/many")},
		"{target}": {url.PathEscape("north/main"), "main-of-north"},
	}
	tried := 0
	for _, r := range routes(t) {
		if !strings.Contains(r.path, "{") || r.id == "import-targets" || r.id == "list-targets" {
			continue
		}
		for _, key := range foreign["{key}"] {
			for _, target := range foreign["{target}"] {
				known, none := r.path, r.path
				put := func(param, is, isNot string) {
					known, none = strings.ReplaceAll(known, param, is), strings.ReplaceAll(none, param, isNot)
				}
				switch {
				case strings.HasPrefix(r.path, "/v1/receivers/{key}/targets"):
					if key != "given" {
						continue
					}
					put("{key}", "webhooks", "webhooks")
				case strings.Contains(r.path, "{key}"):
					put("{key}", key, strings.Replace(key, "north", "nobody", 1)+"0")
				}
				put("{target}", target, strings.Replace(target, "north", "nobody", 1)+"0")
				put("{lane}", "default", "default")
				put("{type}", "x.y", "x.y")
				switch {
				case strings.Contains(r.path, "/events/"):
					put("{id}", y.ids["evt"], "evt_"+unknown)
				case strings.Contains(r.path, "/deliveries/"):
					put("{id}", y.ids["dlv"], "dlv_"+unknown)
				case strings.Contains(r.path, "/correlations/"):
					put("{id}", y.ids["chain"], "chain-of-nobody")
				default:
					put("{id}", "x", "x")
				}
				a, b := y.bearing(t, y.east, r.method, known, bodies[r.id]), y.bearing(t, y.east, r.method, none, bodies[r.id])
				tried++
				if r.method == "PUT" { // it made two things of east's own
					y.bearing(t, y.east, "DELETE", known, "")
					y.bearing(t, y.east, "DELETE", none, "")
				}
				says := func(text, asked string) string {
					for _, name := range []string{key, target, url.PathEscape(key)} {
						plain, _ := url.PathUnescape(name)
						text = strings.NewReplacer(plain+"0", "IT", strings.Replace(plain, "north", "nobody", 1)+"0", "IT", plain, "IT").Replace(text)
					}
					return varying.ReplaceAllString(text, "")
				}
				if a.status != b.status || says(a.text, known) != says(b.text, none) {
					t.Errorf("%s %s: %d %s\nand %s: %d %s", r.id, known, a.status, a.text, none, b.status, b.text)
				}
				if strings.HasPrefix(r.path, "/v1/receivers") && a.status == 200 && r.method == "GET" && !strings.HasSuffix(r.path, "/targets") {
					t.Errorf("%s %s: %d %s", r.id, known, a.status, a.text)
				}
			}
		}
	}
	if tried < 60 {
		t.Errorf("only %d calls were tried", tried)
	}
	if after := y.state(t); after != before {
		t.Errorf("north's things were\n%s\nand are\n%s", before, after)
	}
}

// state is everything of north's, as north sees it.
func (y *tenancy) state(t testing.TB) string {
	t.Helper()
	var all []string
	for _, path := range []string{"/v1/receivers", "/v1/receivers/webhooks/targets", "/v1/events", "/v1/deliveries", "/v1/deliveries/" + y.ids["dlv"], "/v1/correlations/chain-of-north"} {
		all = append(all, y.must(t, y.north, "GET", path, "").text)
	}
	return strings.Join(all, "\n")
}

// AUTH-01: the same names of two tenants are two things.
func TestTwoTenantsMayUseTheSameNames(t *testing.T) {
	t.Parallel()
	y := settle(t)
	for key, tenant := range map[string]string{y.north: "north", y.east: "east"} {
		own := y.must(t, key, "GET", "/v1/receivers/hooks", "")
		if own.at("key") != "hooks" || own.at("tenant") != tenant || own.at("description") != key[len(key)-6:] || own.at("lane") != "default" || own.at("pause_scope") != "target" {
			t.Errorf("hooks of %s: %s", tenant, own.text)
		}
		if target := y.must(t, key, "GET", "/v1/receivers/webhooks/targets/main", ""); target.at("target") != "main" || target.at("receiver") != "webhooks" || target.at("tenant") != tenant {
			t.Errorf("main of %s: %s", tenant, target.text)
		}
		if operators := y.must(t, operatorKey, "GET", "/v1/receivers/"+url.PathEscape(tenant+"/hooks"), ""); operators.at("key") != tenant+"/hooks" || operators.at("tenant") != tenant {
			t.Errorf("the operator sees %s", operators.text)
		}
	}
	// The same idempotency key, too.
	mine := y.must(t, y.north, "POST", "/v1/events", `{"type":"x.y","data":"n"}`, "Idempotency-Key", "same")
	other := y.must(t, y.east, "POST", "/v1/events", `{"type":"x.y","data":"e"}`, "Idempotency-Key", "same")
	if mine.at("event.id") == other.at("event.id") || other.at("event.tenant") != "east" {
		t.Errorf("%s\n%s", mine.text, other.text)
	}
	// And a key takes over from another of the same owner and tenant, not from one of
	// another tenant.
	heir, _ := y.issue(t, `{"name":"next","owner":"north","tenant":"north","scopes":["events:write"]}`)
	if a := y.must(t, heir, "POST", "/v1/events", `{"type":"x.y","data":"n"}`, "Idempotency-Key", "same"); a.header.Get("Idempotent-Replayed") != "true" || a.text != mine.text {
		t.Errorf("the key that takes over: %s", a.text)
	}
	stranger, _ := y.issue(t, `{"name":"other","owner":"north","scopes":["events:write"]}`)
	if a := y.must(t, stranger, "POST", "/v1/events", `{"type":"x.y","data":"n"}`, "Idempotency-Key", "same"); a.header.Get("Idempotent-Replayed") != "" || a.at("event.tenant") != "" {
		t.Errorf("a key of the whole service: %s", a.text)
	}
}

func TestATenantIsForcedAndMayNotBeAnother(t *testing.T) {
	t.Parallel()
	y := settle(t)
	for _, c := range []struct{ method, path, body, pointer string }{
		{"POST", "/v1/events", `{"type":"x.y","data":1,"tenant":"north"}`, "/tenant"},
		{"PUT", "/v1/receivers/r", `{"events":["a.b"],"url":"https://shop.example.com/x","tenant":"north"}`, "/tenant"},
		{"PUT", "/v1/receivers/r", `{"events":["a.b"],"url":"https://shop.example.com/x","lane":"mail"}`, "/lane"},
		{"PUT", "/v1/receivers/r", `{"events":["a.b"],"url":"https://shop.example.com/x","pause_scope":"lane"}`, "/pause_scope"},
		{"PUT", "/v1/receivers/webhooks/targets/t", `{"url":"https://shop.example.com/x","tenant":"north"}`, "/tenant"},
		{"POST", "/v1/receivers/webhooks/targets/import", `{"targets":[{"target":"t","url":"https://shop.example.com/x","tenant":"north"}]}`, "/targets/0/tenant"},
		{"POST", "/v1/deliveries/requeue", `{"tenant":"north"}`, "/tenant"},
		{"POST", "/v1/deliveries/cancel", `{"tenant":"north"}`, "/tenant"},
		{"POST", "/v1/events/replay", `{"tenant":"north"}`, "/tenant"},
		{"GET", "/v1/events?tenant=north", "", "/tenant"},
		{"GET", "/v1/deliveries?tenant=north", "", "/tenant"},
	} {
		if a := y.bearing(t, y.east, c.method, c.path, c.body, "Idempotency-Key", "f"); a.status != 422 || a.at("errors.0.pointer") != c.pointer {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.text)
		}
	}
	// Nothing of the whole service is a tenant's.
	for _, c := range [][2]string{{"GET", "/v1/status"}, {"GET", "/v1/lanes"}, {"GET", "/v1/catalogue"}, {"PUT", "/v1/event-types/a.b"}, {"POST", "/v1/egress/check"}} {
		if a := y.bearing(t, y.east, c[0], c[1], ""); a.status != 403 || a.at("code") != "forbidden" || !strings.Contains(a.at("detail"), "bound to a tenant") {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.status, a.text)
		}
	}
	for _, path := range []string{"/v1/receivers/billing", "/v1/receivers/webhooks"} {
		if a := y.bearing(t, y.east, "GET", path, ""); a.status != 404 {
			t.Errorf("GET %s: %d %s", path, a.status, a.text)
		}
	}
}

// What is done to many is done to the tenant's own.
func TestATenantsOperationsTouchItsOwnAlone(t *testing.T) {
	t.Parallel()
	y := settle(t)
	ids := `{"ids":["` + strings.Join(y.all, `","`) + `"]}`
	for _, c := range []struct{ path, body, key, counted, want string }{
		{"/v1/deliveries/requeue", `{}`, y.east, "requeued", "0"},
		{"/v1/deliveries/requeue", ids, y.east, "skipped.not_found", "3"},
		{"/v1/deliveries/cancel", ids, y.east, "skipped.not_found", "3"},
		{"/v1/events/replay", `{"ids":["` + y.ids["evt"] + `"]}`, y.east, "skipped.not_found", "1"},
		{"/v1/events/replay", `{"dry_run":true}`, y.east, "reopened", "0"},
		{"/v1/events/replay", `{"dry_run":true,"receivers":["hooks"]}`, y.north, "reopened", "1"},
		{"/v1/events/replay", `{"dry_run":true,"targets":["main"]}`, y.north, "reopened", "1"},
		{"/v1/deliveries/requeue", `{"dry_run":true,"receiver":"hooks"}`, y.north, "requeued", "1"},
		{"/v1/deliveries/requeue", `{"dry_run":true,"target":"main"}`, y.north, "requeued", "1"},
		{"/v1/deliveries/requeue", `{"dry_run":true}`, y.north, "requeued", "3"},
	} {
		if a := y.must(t, c.key, "POST", c.path, c.body); a.at(c.counted) != c.want {
			t.Errorf("%s %s: %s; want %s %s", c.path, c.body, a.text, c.counted, c.want)
		}
	}
	for query, want := range map[string]int{"": 3, "?receiver=hooks": 1, "?target=main": 1, "?receiver=webhooks&target=main": 1, "?receiver=none": 0} {
		if a := y.must(t, y.north, "GET", "/v1/deliveries"+query, ""); a.list("data") != want {
			t.Errorf("%q: %s", query, a.text)
		}
		if a := y.must(t, y.east, "GET", "/v1/deliveries"+query, ""); a.list("data") != 0 {
			t.Errorf("east with %q: %s", query, a.text)
		}
	}
}

// A cursor is only good for whom it was given to.
func TestACursorIsItsTenants(t *testing.T) {
	t.Parallel()
	y := settle(t)
	for n := range 3 {
		for _, key := range []string{y.north, y.east} {
			y.must(t, key, "POST", "/v1/events", `{"type":"x.y","data":1}`, "Idempotency-Key", fmt.Sprint("c", n))
		}
	}
	for _, list := range []string{"/v1/events", "/v1/deliveries", "/v1/receivers", "/v1/receivers/webhooks/targets"} {
		y.must(t, y.north, "PUT", "/v1/receivers/webhooks/targets/second", `{"url":"https://shop.example.com/x"}`)
		next := y.must(t, y.north, "GET", list+"?limit=1", "").at("next_cursor")
		if next == "" {
			t.Fatalf("%s has one page", list)
		}
		y.must(t, y.north, "GET", list+"?limit=1&cursor="+next, "")
		for _, key := range []string{y.east, operatorKey} {
			if a := y.bearing(t, key, "GET", list+"?limit=1&cursor="+next, ""); a.status != 400 || a.at("code") != "invalid-cursor" {
				t.Errorf("%s: %d %s", list, a.status, a.text)
			}
		}
	}
}

// A cause of another tenant's is no cause that is known: its chain is not told.
func TestACauseOfAnotherTenantGivesNoChain(t *testing.T) {
	t.Parallel()
	y := settle(t)
	body := `{"type":"x.y","data":1,"causation_id":"` + y.ids["evt"] + `"}`
	if a := y.must(t, y.east, "POST", "/v1/events", body, "Idempotency-Key", "cause"); a.at("event.correlation_id") != a.at("event.id") {
		t.Errorf("east is told %s", a.text)
	}
	for _, key := range []string{y.north, operatorKey} {
		if a := y.must(t, key, "POST", "/v1/events", body, "Idempotency-Key", "cause"); a.at("event.correlation_id") != "chain-of-north" {
			t.Errorf("got %s", a.text)
		}
	}
}

// What was heard at an address that is not the tenant's is the operator's to know.
func TestATenantReadsWhatItsOwnAddressesSaidAndNoOthers(t *testing.T) {
	t.Parallel()
	y := settle(t)
	for _, id := range y.all {
		a := y.must(t, y.north, "GET", "/v1/deliveries/"+id, "")
		own := a.at("receiver") != "billing"
		if (a.at("last_error") != "") != own || (a.at("attempt_log.0.response.headers") != "") != own || (a.at("attempt_log.0.error") != "") != own ||
			a.at("attempt_log.0.worker") != "" || a.at("attempt_log.0.http_status") != "410" || a.at("why") == "" {
			t.Errorf("%s: %s", a.at("receiver"), a.text)
		}
		if o := y.must(t, operatorKey, "GET", "/v1/deliveries/"+id, ""); o.at("last_error") == "" || o.at("attempt_log.0.worker") == "" {
			t.Errorf("the operator: %s", o.text)
		}
	}
}

// Every change is in the audit, with what was before and after, and no secret.
func TestTheAuditTellsOfEveryChangeAndNoSecret(t *testing.T) {
	t.Parallel()
	y := settle(t)
	const canary = "canary-9d1f"
	secret := "whsec_" + strings.Repeat("Q2FuYXJ5", 4)
	y.must(t, operatorKey, "PUT", "/v1/receivers/r", `{"events":["a.b"],"url":"https://shop.example.com/x?token=`+canary+`","secret":"`+secret+`","headers":{"X-Token":"`+canary+`"},"on_failure":{"url":"https://shop.example.com/f?t=`+canary+`"}}`)
	y.must(t, operatorKey, "PUT", "/v1/receivers/r", `{"events":["a.c"],"url":"https://shop.example.com/x?token=`+canary+`","headers":{"X-Token":"`+canary+`"}}`)
	y.must(t, operatorKey, "PUT", "/v1/receivers/r", `{"events":["a.c"],"url":"https://shop.example.com/x?token=`+canary+`","headers":{"X-Token":"`+canary+`"}}`) // the same: no change
	y.must(t, operatorKey, "POST", "/v1/receivers/r/pause", "")
	y.must(t, operatorKey, "POST", "/v1/receivers/r/secret/rotate", `{"secret":"`+secret+`Zg==","overlap":"0s"}`)
	y.must(t, operatorKey, "POST", "/v1/receivers/r/rename", `{"key":"s"}`)
	y.must(t, operatorKey, "POST", "/v1/lanes/default/pause", "")
	y.must(t, operatorKey, "POST", "/v1/lanes/default/resume", "")
	y.must(t, operatorKey, "PUT", "/v1/event-types/a.b", `{"description":"An a."}`)
	y.must(t, operatorKey, "DELETE", "/v1/event-types/a.b", "")
	y.must(t, y.north, "DELETE", "/v1/receivers/webhooks/targets/main", "")
	y.must(t, y.north, "POST", "/v1/deliveries/"+y.ids["dlv"]+"/requeue", "")
	y.must(t, operatorKey, "POST", "/v1/deliveries/requeue", `{"dry_run":true}`)
	y.must(t, operatorKey, "POST", "/v1/deliveries/requeue", `{"limit":0}`)
	y.must(t, operatorKey, "DELETE", "/v1/receivers/s", "")
	y.bearing(t, operatorKey, "DELETE", "/v1/receivers/s", "") // 404: no change

	var all []answer
	var told []string
	next := "/v1/audit?limit=7"
	for next != "" {
		a := y.must(t, operatorKey, "GET", next, "")
		if strings.Contains(a.text, canary) || strings.Contains(a.text, "Q2FuYXJ5") || strings.Contains(a.text, y.north) {
			t.Errorf("a secret is told: %s", a.text)
		}
		for i := range a.list("data") {
			at := func(name string) string { return a.at(fmt.Sprint("data.", i, ".", name)) }
			told = append(told, at("action")+" "+at("object")+" by "+at("actor"))
		}
		all = append(all, a)
		if next = a.at("next_cursor"); next != "" {
			next = "/v1/audit?limit=7&cursor=" + next
		}
	}
	want := []string{
		"delete-receiver receivers/s by operator", "requeue-deliveries deliveries by operator", "requeue-delivery deliveries/" + y.ids["dlv"] + " by north",
		"delete-target receivers/webhooks/targets/north/main by north", "delete-event-type event-types/a.b by operator", "put-event-type event-types/a.b by operator",
		"resume-lane lanes/default by operator", "pause-lane lanes/default by operator", "rename-receiver receivers/r by operator", "rotate-secret receivers/r by operator",
		"pause-receiver receivers/r by operator", "put-receiver receivers/r by operator", "put-receiver receivers/r by operator",
	}
	if len(told) < len(want) || strings.Join(told[:len(want)], "\n") != strings.Join(want, "\n") {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	second := all[1].text // it has the second declaration
	if !strings.Contains(second, `"before":{`) || !strings.Contains(second, `"a.b"`) || !strings.Contains(second, `"X-Token":"(not shown)"`) {
		t.Errorf("got %s", second)
	}
	if a := y.bearing(t, y.north, "GET", "/v1/audit", ""); a.status != 403 {
		t.Errorf("a tenant reads the audit: %d", a.status)
	}
}

// A key that is past its rate is told when to come back, and nobody else is held up.
func TestAKeyIsHeldToItsRate(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), asked, "serve")
	slow, _ := p.issue(t, `{"name":"slow","scopes":["read","events:write"],"rate":{"per_second":1,"burst":2}}`)
	quick, _ := p.issue(t, `{"name":"quick","scopes":["read"]}`)
	var mu sync.Mutex
	var calls sync.WaitGroup
	var refused answer
	passed := 0
	for range 40 {
		calls.Go(func() {
			a, err := p.try("GET", "/v1/events", "", "Authorization", "Bearer "+slow)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case a.status == 429:
				refused = a
			case a.status == 200:
				passed++
			default:
				t.Errorf("%d %s", a.status, a.text)
			}
		})
	}
	calls.Wait()
	if passed < 2 || passed > 10 || refused.at("code") != "quota-exceeded" || refused.header.Get("Retry-After") != "1" ||
		refused.header.Get("RateLimit-Policy") != `"key";q=2;w=2` || !strings.HasPrefix(refused.header.Get("RateLimit"), `"key";r=0;t=`) {
		t.Errorf("%d passed; refused: %v %s", passed, refused.header, refused.text)
	}
	// It is refused before its body is looked at.
	if a := p.bearing(t, slow, "POST", "/v1/events", "{", "Idempotency-Key", "k"); a.status != 429 && a.status != 400 {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := p.bearing(t, quick, "GET", "/v1/events", ""); a.status != 200 || a.header.Get("RateLimit") != "" {
		t.Errorf("another key: %d %v", a.status, a.header)
	}
}

// A tenant that is owed as much as may be is told so; a repeat is answered as ever, and
// others fire on.
func TestATenantIsHeldToItsQuota(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_AUTH=off", "EVENTSVC_TENANT_QUOTA=3", "EVENTSVC_RELAY_WORKERS=0"}, "serve")
	p.declare(t, "r", `{"events":["a.b"],"url":"https://shop.example.com/x"}`)
	fire := func(tenant, key string) answer {
		return p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1,"tenant":"`+tenant+`"}`, "Idempotency-Key", key)
	}
	for n := range 3 {
		if a := fire("north", fmt.Sprint(n)); a.status != 201 {
			t.Fatalf("%d: %d %s", n, a.status, a.text)
		}
	}
	if a := fire("north", "3"); a.status != 429 || a.at("code") != "quota-exceeded" || a.header.Get("Retry-After") == "" || a.header.Get("RateLimit-Policy") != `"tenant";q=3` || !strings.HasPrefix(a.header.Get("RateLimit"), `"tenant";r=0;t=`) {
		t.Errorf("one more: %d %s", a.status, a.text)
	}
	if a := fire("north", "2"); a.status != 201 || a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a repeat: %d %s", a.status, a.text)
	}
	for _, tenant := range []string{"east", ""} {
		body := `{"type":"a.b","data":1,"tenant":"` + tenant + `"}`
		if tenant == "" {
			body = `{"type":"a.b","data":1}`
		}
		if a := p.call(t, "POST", "/v1/events", body, "Idempotency-Key", "other"+tenant); a.status != 201 {
			t.Errorf("%q: %d %s", tenant, a.status, a.text)
		}
	}
	if a := p.call(t, "POST", "/v1/deliveries/cancel", `{"tenant":"north","limit":1}`); a.at("cancelled") != "1" {
		t.Fatalf("cancel: %s", a.text)
	}
	eventually(t, func() bool { return fire("north", "3").status == 201 }, func() string { return "north stays refused" })
	if a := fire("north", "4"); a.status != 429 {
		t.Errorf("one more again: %d %s", a.status, a.text)
	}
}

// Operators' pages have an address of their own where one is asked for, in a relay too.
func TestOperatorsPagesHaveAnAddressOfTheirOwn(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, []string{"EVENTSVC_AUTH=off", "EVENTSVC_ALLOW_PRIVATE=true", "EVENTSVC_OPS_LISTEN=127.0.0.1:0"}, "serve")
	p.log.await(t, "EVENTSVC_OPS_LISTEN")
	ops := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(p.log.String()[strings.Index(p.log.String(), "EVENTSVC_OPS_LISTEN"):])
	at := &process{base: "http://" + ops, apart: true}
	for path, want := range map[string]int{"/metrics": 200, "/livez": 200, "/readyz": 200, "/debug/pprof/cmdline": 200, "/debug/pprof/heap": 200, "/v1/events": 404, "/debug/": 404} {
		if a := at.call(t, "GET", path, ""); a.status != want {
			t.Errorf("%s at %s: %d %s", path, ops, a.status, a.text)
		}
	}
	for path, want := range map[string]int{"/metrics": 404, "/debug/pprof/heap": 404, "/livez": 200, "/readyz": 200} {
		if a := p.call(t, "GET", path, ""); a.status != want {
			t.Errorf("%s at the API's address: %d %s", path, a.status, a.text)
		}
	}
	if a := p.call(t, "POST", "/v1/egress/check", `{"url":"http://`+ops+`/debug/pprof/heap"}`); a.at("allowed") != "false" || !strings.Contains(a.text, "EVENTSVC_OPS_LISTEN") {
		t.Errorf("a webhook may go there: %s", a.text)
	}
	r := spawn(t, t.TempDir(), []string{"DATABASE_URL=" + url, "EVENTSVC_OPS_LISTEN=" + ops}, "relay")
	if code := r.exit(t); code != 78 || !strings.Contains(r.log.String()+r.out.String(), "EVENTSVC_OPS_LISTEN") {
		t.Errorf("a second at the same address: %d %s", code, r.log)
	}
}
