package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

const operatorKey = "esk_0123456789abcdef"

// asked is the setting of a service that asks for keys.
var asked = []string{"EVENTSVC_AUTH=on", "EVENTSVC_ADMIN_KEY=" + operatorKey}

// bearing makes one request with a key.
func (p *process) bearing(t testing.TB, key, method, path, body string, headers ...string) answer {
	t.Helper()
	return p.call(t, method, path, body, append([]string{"Authorization", "Bearer " + key}, headers...)...)
}

// issue makes a key: its text and its id.
func (p *process) issue(t testing.TB, fields string) (key, id string) {
	t.Helper()
	a := p.bearing(t, operatorKey, "POST", "/v1/api-keys", fields)
	if a.status != 201 || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("issue %s: %d %s", fields, a.status, a.text)
	}
	return a.at("key"), a.at("id")
}

// route is one operation of openapi.yaml.
type route struct{ method, path, id, scope string }

// routes are all of them.
func routes(t testing.TB) (all []route) {
	t.Helper()
	text, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Paths map[string]map[string]struct {
			OperationID string                `yaml:"operationId"`
			Security    []map[string][]string `yaml:"security"`
		} `yaml:"paths"`
	}
	if err := yaml.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	for path, methods := range spec.Paths {
		for method, op := range methods {
			if len(op.Security) != 1 || len(op.Security[0]["bearer"]) != 1 {
				t.Fatalf("%s %s names no scope: %v", method, path, op.Security)
			}
			all = append(all, route{strings.ToUpper(method), path, op.OperationID, op.Security[0]["bearer"][0]})
		}
	}
	if len(all) < 30 {
		t.Fatalf("openapi.yaml has %d operations", len(all))
	}
	slices.SortFunc(all, func(x, y route) int { return strings.Compare(x.id, y.id) })
	return all
}

// at is the route's address for an id of its own kind.
func (r route) at(id string) string {
	path, rest, cut := strings.Cut(r.path, "{")
	if !cut {
		return path
	}
	_, rest, _ = strings.Cut(rest, "}")
	return path + id + rest
}

var scopes = []string{"events:write", "read", "receivers:write", "deliveries:write", "admin"}

// T94, AUTH-08.
func TestEveryOperationAsksForItsScopeAndNoRouteSkipsTheGate(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, append([]string{"EVENTSVC_TEST_MODE=true"}, asked...), "serve")
	other := start(t, url, asked, "serve")
	has, lacks := map[string]string{}, map[string]string{}
	for _, s := range scopes {
		has[s], _ = p.issue(t, `{"name":"has","scopes":["`+s+`"]}`)
		without := slices.DeleteFunc(slices.Clone(scopes), func(x string) bool { return x == s || x == "admin" })
		lacks[s], _ = p.issue(t, `{"name":"lacks","scopes":["`+strings.Join(without, `","`)+`"]}`)
	}
	revoked, id := p.issue(t, `{"name":"gone","scopes":["`+strings.Join(scopes, `","`)+`"]}`)
	if a := other.bearing(t, revoked, "GET", "/v1/events", ""); a.status != 200 {
		t.Fatalf("before it was revoked: %d %s", a.status, a.text)
	}
	if a := p.bearing(t, has["admin"], "DELETE", "/v1/api-keys/"+id, ""); a.status != 204 {
		t.Fatalf("revoke: %d %s", a.status, a.text)
	}
	all := append(routes(t), route{"POST", "/v1/testing/drain", "drain", "admin"}, route{"POST", "/v1/testing/reset", "reset", "admin"})
	for _, r := range all {
		if a := p.call(t, r.method, r.at("x"), ""); a.status != 401 || a.at("code") != "unauthorized" {
			t.Errorf("%s without a key: %d %s", r.id, a.status, a.text)
		}
		for _, each := range []*process{p, other} {
			if each == other && strings.HasPrefix(r.path, "/v1/testing") {
				continue
			}
			if a := each.bearing(t, revoked, r.method, r.at("x"), ""); a.status != 401 {
				t.Errorf("%s with a revoked key: %d %s", r.id, a.status, a.text)
			}
		}
		if a := p.bearing(t, lacks[r.scope], r.method, r.at("x"), ""); a.status != 403 || a.at("code") != "forbidden" || !strings.Contains(a.at("detail"), r.scope) {
			t.Errorf("%s with a key that lacks %s: %d %s", r.id, r.scope, a.status, a.text)
		}
		for _, s := range []string{r.scope, "admin"} {
			if a := p.bearing(t, has[s], r.method, r.at("x"), ""); a.status == 401 || a.status == 403 || a.status >= 500 {
				t.Errorf("%s with the scope %s: %d %s", r.id, s, a.status, a.text)
			}
		}
	}
}

// AUTH-10: a stranger sends headers, announces a body, and sends none of it.
func TestAStrangersBodyIsNotRead(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), asked, "serve")
	for _, announced := range []string{"Transfer-Encoding: chunked", "Content-Length: 100", "Content-Length: 10737418240"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(4 * time.Second)); err != nil { // below the time that a body may take
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /v1/events HTTP/1.1\r\nHost: shop.example.com\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n%s\r\n\r\n", announced)
		in := bufio.NewReader(c)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", announced, err)
		}
		resp.Body.Close()
		if resp.StatusCode != 401 || !resp.Close {
			t.Errorf("%s: %d, close %v", announced, resp.StatusCode, resp.Close)
		}
		for _, err = in.ReadByte(); err == nil; _, err = in.ReadByte() {
		}
		if ne, is := err.(net.Error); is && ne.Timeout() {
			t.Errorf("%s: the connection stays open", announced)
		}
	}
}

// AUTH-01: who owns a key owns its idempotency keys.
func TestOneIdempotencyKeyOfTwoOwnersIsTwo(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), asked, "serve")
	a, _ := p.issue(t, `{"name":"a","scopes":["events:write"]}`)
	b, _ := p.issue(t, `{"name":"b","scopes":["events:write"]}`)
	seen := map[string]bool{}
	for _, key := range []string{operatorKey, a, b} {
		body := `{"type":"a.b","data":"` + key[len(key)-4:] + `"}`
		first := p.bearing(t, key, "POST", "/v1/events", body, "Idempotency-Key", "order-1")
		again := p.bearing(t, key, "POST", "/v1/events", body, "Idempotency-Key", "order-1")
		if first.status != 201 || again.status != 201 || first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" || again.text != first.text {
			t.Errorf("%d %s, then %d %s", first.status, first.text, again.status, again.text)
		}
		seen[first.at("event.id")] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d events of three owners", len(seen))
	}
}

func TestKeysAreMadeListedAndRevokedAndShownOnce(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), asked, "serve")
	var made []string
	for n := range 3 {
		key, _ := p.issue(t, fmt.Sprintf(`{"name":"shop %d","scopes":["read"],"tenant":"north","expires_at":"2127-01-31T12:00:00Z","rate":{"per_second":5}}`, n))
		made = append(made, key)
	}
	names, next := []string{}, "/v1/api-keys?limit=2"
	for next != "" {
		a := p.bearing(t, operatorKey, "GET", next, "")
		for i := range a.list("data") {
			names = append(names, a.at(fmt.Sprint("data.", i, ".name")))
		}
		for _, key := range made {
			if strings.Contains(a.text, key) || strings.Contains(a.text, `"key"`) {
				t.Errorf("a key is shown again: %s", a.text)
			}
		}
		if a.at("data.0.tenant") != "north" || a.at("data.0.rate.burst") != "5" || a.at("data.0.expires_at") != "2127-01-31T12:00:00Z" || !strings.HasPrefix(made[0], "esk_") {
			t.Errorf("got %s", a.text)
		}
		if next = a.at("next_cursor"); next != "" {
			next = "/v1/api-keys?limit=2&cursor=" + next
		}
	}
	if !slices.Equal(names, []string{"shop 2", "shop 1", "shop 0"}) {
		t.Errorf("listed %v", names)
	}
	for body, pointer := range map[string]string{
		`{"scopes":["read"]}`: "/name", `{"name":"x","scopes":[]}`: "/scopes", `{"name":"x","scopes":["write"]}`: "/scopes/0",
		`{"name":"x","scopes":["admin"],"tenant":"north"}`: "/scopes/0", `{"name":"x","scopes":["read"],"expires_at":"2001-01-01T00:00:00Z"}`: "/expires_at",
		`{"name":"x","scopes":["read"],"rate":{"per_second":0,"burst":3}}`: "/rate/per_second", `{"name":"x","scopes":["read"],"ternant":"t"}`: "/ternant",
	} {
		if a := p.bearing(t, operatorKey, "POST", "/v1/api-keys", body); a.status != 422 || a.at("errors.0.pointer") != pointer {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	for _, id := range []string{"x", "key_01jxkg2c8zf3v9e4m6r7t8w9yc"} {
		if a := p.bearing(t, operatorKey, "DELETE", "/v1/api-keys/"+id, ""); a.status != 404 {
			t.Errorf("revoke %s: %d %s", id, a.status, a.text)
		}
	}
}

func TestKeysAreKeptFromTheCommandLine(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	run := func(args ...string) (string, int) {
		t.Helper()
		p := spawn(t, t.TempDir(), []string{"DATABASE_URL=" + url}, append([]string{"keys"}, args...)...)
		code := p.exit(t)
		return strings.TrimSpace(p.out.String()), code
	}
	key, code := run("create", "--name", "shop", "--scope", "read,events:write")
	if code != 0 || !strings.HasPrefix(key, "esk_") {
		t.Fatalf("create: %d %s", code, key)
	}
	// One live key is enough for a service to start.
	p := start(t, url, []string{"EVENTSVC_AUTH=on"}, "serve")
	if a := p.bearing(t, key, "GET", "/v1/events", ""); a.status != 200 {
		t.Errorf("with the key: %d %s", a.status, a.text)
	}
	list, code := run("list")
	id, _, _ := strings.Cut(list, " ")
	if code != 0 || !strings.HasPrefix(id, "key_") || !strings.Contains(list, "live") || strings.Contains(list, key) {
		t.Errorf("list: %d %s", code, list)
	}
	if out, code := run("revoke", id); code != 0 {
		t.Errorf("revoke: %d %s", code, out)
	}
	if a := p.bearing(t, key, "GET", "/v1/events", ""); a.status != 401 {
		t.Errorf("with the revoked key: %d %s", a.status, a.text)
	}
	for _, args := range []string{"create --name x --scope write", "create --scope read", "create --name x --scope read --expires-at soon", "revoke", "revoke x", ""} {
		if out, code := run(strings.Fields(args)...); code != 2 {
			t.Errorf("keys %s: %d %s", args, code, out)
		}
	}
}
