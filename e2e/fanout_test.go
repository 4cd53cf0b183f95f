package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	standard "github.com/eventsvc/eventsvc/internal/webhook"
)

// secretOf is the signing secret that an answer showed.
func secretOf(t *testing.T, text string) event.Secret {
	t.Helper()
	s, err := event.ParseSecret(text)
	if err != nil {
		t.Fatalf("no secret: %v", err)
	}
	return s
}

// T63, T114, T120, T125, FAIR-02, FAIR-03: each target gets a delivery of its own, by its
// tenant and types, signed with its own secret.
func TestEachTargetGetsADeliveryOfItsOwn(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(500)
		}
	})
	p.declare(t, "hooks", `{"events":["order.*"],"fan_out":true,"headers":{"x-from":"shop"}}`)
	put := func(name, fields string) answer {
		t.Helper()
		a := p.call(t, "PUT", "/v1/receivers/hooks/targets/"+name, fields)
		if a.status != 201 {
			t.Fatalf("%s: %d %s", name, a.status, a.text)
		}
		return a
	}
	acme := put("acme", `{"url":"`+s.URL+`/acme","tenant":"acme","headers":{"x-from":"acme"}}`)
	put("zeta", `{"url":"`+s.URL+`/zeta","tenant":"zeta"}`)
	put("bad", `{"url":"`+s.URL+`/bad"}`)
	put("paid", `{"url":"`+s.URL+`/paid","events":["order.paid"]}`)

	fired := p.fire(t, "1", `{"type":"order.placed","data":1,"tenant":"acme"}`)
	if fired.list("deliveries") != 2 || !strings.Contains(fired.text, `"target":"acme"`) || !strings.Contains(fired.text, `"target":"bad"`) {
		t.Fatalf("got %s", fired.text)
	}
	if a := p.fire(t, "2", `{"type":"order.placed","data":1}`); a.list("deliveries") != 1 {
		t.Errorf("an event of no tenant: %s", a.text)
	}
	if a := p.fire(t, "3", `{"type":"order.paid","data":1,"tenant":"nobody"}`); a.list("deliveries") != 2 {
		t.Errorf("another tenant's, of one's own type: %s", a.text)
	}
	for range 5 {
		got := s.next(t)
		if got.header.Get("Eventsvc-Target") != "acme" {
			continue
		}
		if err := standard.Verify(got.header, got.body, time.Now(), secretOf(t, acme.at("secret")).Signer()); err != nil || got.header.Get("X-From") != "acme" {
			t.Errorf("%v; %v", err, got.header)
		}
	}
	theirs := func() answer { return p.call(t, "GET", "/v1/deliveries?target=acme", "") }
	eventually(t, func() bool { a := theirs(); return a.list("data") == 1 && a.at("data.0.status") == "succeeded" },
		func() string { return "the target's deliveries: " + theirs().text })
	// Replay asks again: one that is gone is left, one that is new is added.
	if a := p.call(t, "DELETE", "/v1/receivers/hooks/targets/bad", ""); a.status != 409 {
		t.Errorf("delete: %d %s", a.status, a.text)
	}
	if a := p.call(t, "DELETE", "/v1/receivers/hooks/targets/bad?owed=orphan", ""); a.status != 204 {
		t.Errorf("delete: %d %s", a.status, a.text)
	}
	put("new", `{"url":"`+s.URL+`/new"}`)
	if a := p.call(t, "POST", "/v1/events/"+fired.at("event.id")+"/replay", ""); a.at("reopened") != "1" || a.at("added") != "1" {
		t.Errorf("replay: %s", a.text)
	}
	for body, pointer := range map[string]string{
		`{"events":["*"],"fan_out":true,"url":"http://127.0.0.1/"}`: "/fan_out", `{"events":["*"]}`: "/url", `{"events":["*"],"fan_out":true,"secret":"x"}`: "/secret",
	} {
		if a := p.call(t, "PUT", "/v1/receivers/x", body); a.status != 422 || a.at("errors.0.pointer") != pointer {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	p.declare(t, "plain", `{"events":["none"],"url":"`+s.URL+`"}`)
	if a := p.call(t, "PUT", "/v1/receivers/plain/targets/x", `{"url":"`+s.URL+`"}`); a.status != 409 {
		t.Errorf("a target of a receiver with a url: %d %s", a.status, a.text)
	}
	if a := p.call(t, "GET", "/v1/receivers/hooks/targets/none", ""); a.status != 404 {
		t.Errorf("none: %d %s", a.status, a.text)
	}
}

// One event to ten thousand targets, in one fire.
func TestTenThousandTargetsAreImportedAndOwedInOneFire(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	p.declare(t, "hooks", `{"events":["*"],"fan_out":true}`)
	targets := make([]string, 10_000)
	for i := range targets {
		targets[i] = fmt.Sprintf(`{"target":"t%d","url":"http://127.0.0.1:9/%d","tenant":"acme"}`, i, i)
	}
	body := `{"targets":[` + strings.Join(targets, ",") + `]}`
	a := p.call(t, "POST", "/v1/receivers/hooks/targets/import", body)
	if a.status != 200 || a.at("created") != "10000" || a.list("data") != 10_000 {
		t.Fatalf("%d %.300s", a.status, a.text)
	}
	if again := p.call(t, "POST", "/v1/receivers/hooks/targets/import", body); again.status != 200 || again.at("created") != "0" {
		t.Errorf("again: %d %.300s", again.status, again.text)
	}
	for body, pointer := range map[string]string{
		`{"targets":[{"target":"a","url":"x"}]}`: "/targets/0/url", `{"targets":[{"target":"a b","url":"http://127.0.0.1/"}]}`: "/targets/0",
		`{"targets":[{"target":"a","url":"http://127.0.0.1/"},{"target":"a","url":"http://127.0.0.1/"}]}`: "/targets/1/target",
	} {
		if a := p.call(t, "POST", "/v1/receivers/hooks/targets/import", body); a.status != 422 || a.at("errors.0.pointer") != pointer {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	if fired := p.fire(t, "k", `{"type":"a.b","data":1,"tenant":"acme"}`); fired.list("deliveries") != 10_000 {
		t.Errorf("%d deliveries", fired.list("deliveries"))
	}
	if a := p.call(t, "GET", "/v1/receivers/hooks/targets?limit=200", ""); a.list("data") != 200 || a.at("next_cursor") == "" || strings.Contains(a.text, "whsec_") {
		t.Errorf("the list: %.300s", a.text)
	}
	if a := p.call(t, "GET", "/v1/status", ""); a.at("owed") != "10000" {
		t.Errorf("status: %.300s", a.text)
	}
}

// T121, T122, T125, T126: counted by the database, switched off at the threshold, told once
// per incident, and never to a target.
func TestATargetWhoseDeliveriesKeepDyingIsSwitchedOff(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_DISABLE_AFTER_DEAD=3"}, "serve")
	var well atomic.Bool
	s := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(410)
		}
	})
	desk := open(t, nil)
	p.declare(t, "hooks", `{"events":["*"],"fan_out":true}`)
	p.declare(t, "ops", `{"events":["eventsvc.*"],"url":"`+desk.URL+`"}`)
	p.call(t, "PUT", "/v1/receivers/hooks/targets/acme", `{"url":"`+s.URL+`"}`)
	told := func(kind, dead string) {
		t.Helper()
		n := desk.next(t)
		var body struct {
			Type string
			Data map[string]any
		}
		if err := json.Unmarshal(n.body, &body); err != nil || body.Type != "eventsvc.target."+kind || fmt.Sprint(body.Data["dead_in_a_row"]) != dead || body.Data["target"] != "acme" {
			t.Fatalf("told %s, want %s after %s", n.body, kind, dead)
		}
	}
	die := func(key string) {
		t.Helper()
		p.settled(t, p.fire(t, key, `{"type":"a.b","data":1}`).at("deliveries.0.id"), "dead")
	}
	die("1")
	told("failing", "1")
	well.Store(true)
	p.settled(t, p.fire(t, "2", `{"type":"a.b","data":1}`).at("deliveries.0.id"), "succeeded")
	told("recovered", "0")
	well.Store(false)
	die("3")
	told("failing", "1")
	die("4")
	die("5")
	told("disabled", "3")
	p.log.await(t, "target acme of receiver hooks is switched off")
	a := p.call(t, "GET", "/v1/receivers/hooks/targets/acme", "")
	if a.at("disabled") != "true" || a.at("dead_in_a_row") != "3" {
		t.Errorf("got %s", a.text)
	}
	if a := p.call(t, "GET", "/v1/audit?limit=1", ""); a.at("data.0.action") != "disable-target" || a.at("data.0.actor") != "eventsvc itself" || a.at("data.0.object") != "receivers/hooks/targets/acme" {
		t.Errorf("the audit tells %s", a.text)
	}
	if a := p.fire(t, "6", `{"type":"a.b","data":1}`); a.list("deliveries") != 0 {
		t.Errorf("switched off, it is owed %s", a.text)
	}
	if a := p.call(t, "POST", "/v1/receivers/hooks/targets/acme/resume", ""); a.at("disabled") != "false" || a.at("dead_in_a_row") != "0" {
		t.Errorf("resumed: %s", a.text)
	}
	die("7")
	told("failing", "1")
	if n := len(desk.got); n != 0 {
		t.Errorf("%d more were told", n)
	}
	if a := p.call(t, "POST", "/v1/events", `{"type":"eventsvc.target.failing","data":1}`, "Idempotency-Key", "x"); a.status != 422 {
		t.Errorf("a stranger told one of ours: %d", a.status)
	}
}

// SIGN-01, SIGN-03, SIGN-04, SIGN-06, T112, T123: several secrets sign during a rotation,
// newest first; after a leak only the new one; nothing is kept longer.
func TestSecretsRotateWithAndWithoutAnOverlap(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, nil)
	first := p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","signatures":["v1","v1a"]}`)
	keys := p.call(t, "GET", "/v1/receivers/r/keys", "")
	if keys.list("data") != 1 || !strings.HasPrefix(keys.at("data.0.public_key"), "whpk_") {
		t.Fatalf("keys: %s", keys.text)
	}
	send := func(key string) (signatures []string, verifies func(string) bool) {
		t.Helper()
		p.fire(t, key, `{"type":"a.b","data":1}`)
		got := s.next(t)
		return strings.Split(got.header.Get("Webhook-Signature"), " "), func(secret string) bool {
			return standard.Verify(got.header, got.body, time.Now(), secretOf(t, secret).Signer()) == nil
		}
	}
	if signatures, verifies := send("1"); len(signatures) != 2 || !strings.HasPrefix(signatures[1], "v1a,") || !verifies(first.at("secret")) {
		t.Errorf("before: %v", signatures)
	}
	second := p.call(t, "POST", "/v1/receivers/r/secret/rotate", "")
	if second.status != 200 || !strings.HasPrefix(second.at("public_key"), "whpk_") {
		t.Fatalf("rotate: %d %s", second.status, second.text)
	}
	if signatures, verifies := send("2"); len(signatures) != 4 || !verifies(first.at("secret")) || !verifies(second.at("secret")) {
		t.Errorf("during the overlap: %v", signatures)
	}
	if keys := p.call(t, "GET", "/v1/receivers/r/keys", ""); keys.list("data") != 2 || keys.at("data.0.public_key") != second.at("public_key") {
		t.Errorf("keys: %s", keys.text)
	}
	third := p.call(t, "POST", "/v1/receivers/r/secret/rotate", `{"overlap":"0s"}`)
	if signatures, verifies := send("3"); len(signatures) != 2 || verifies(first.at("secret")) || verifies(second.at("secret")) || !verifies(third.at("secret")) {
		t.Errorf("after a leak: %v", signatures)
	}
	for body, pointer := range map[string]string{`{"secret":"whsec_"}`: "/secret", `{"secret":"whsec_!!!!"}`: "/secret", `{"overlap":"31d"}`: "/overlap", `{"overlap":"-1s"}`: "/overlap"} {
		if a := p.call(t, "POST", "/v1/receivers/r/secret/rotate", body); a.status != 422 || a.at("errors.0.pointer") != pointer {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	if _, verifies := send("4"); !verifies(third.at("secret")) {
		t.Error("a refused rotation changed something")
	}
	for range 10 {
		p.call(t, "POST", "/v1/receivers/r/secret/rotate", "")
	}
	if signatures, _ := send("5"); len(signatures) != 10 {
		t.Errorf("%d signatures, want five of each kind", len(signatures))
	}
	for _, path := range []string{"/v1/receivers/r", "/v1/receivers", "/v1/deliveries"} {
		if a := p.call(t, "GET", path, ""); strings.Contains(a.text, "whsec_") || strings.Contains(a.text, "whsk_") {
			t.Errorf("%s shows a secret", path)
		}
	}
}

// The verbs around secrets: verify says which part fails, reseal changes keys.
func TestSecretsAreVerifiedAndResealedByVerbs(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	key := func(c string) string { return strings.Repeat(c, 43) + "=" }
	p := start(t, url, []string{"EVENTSVC_SECRET_KEY=" + key("A")}, "serve")
	s := open(t, nil)
	r := p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","signatures":["v1a"]}`)
	p.fire(t, "k", `{"type":"a.b","data":1}`)
	got := s.next(t)
	verify := func(code int, says string, change func(h map[string]string)) {
		t.Helper()
		h := map[string]string{"--id": got.header.Get("Webhook-Id"), "--timestamp": got.header.Get("Webhook-Timestamp"), "--signature": got.header.Get("Webhook-Signature"), "--secret": r.at("secret")}
		change(h)
		args := []string{"verify"}
		for name, value := range h {
			args = append(args, name+"="+value)
		}
		v := exec.Command(binary, args...)
		v.Stdin = bytes.NewReader(got.body)
		out, _ := v.CombinedOutput()
		if v.ProcessState.ExitCode() != code || !strings.Contains(string(out), says) {
			t.Errorf("exit code %d, said %s; want %d and %q", v.ProcessState.ExitCode(), out, code, says)
		}
	}
	verify(0, "good", func(map[string]string) {})
	verify(1, "webhook-signature was not made", func(h map[string]string) { h["--id"] = "other" })
	verify(1, "webhook-timestamp is", func(h map[string]string) { h["--timestamp"] = "1" })
	verify(1, "webhook-id is missing", func(h map[string]string) { h["--id"] = "" })
	verify(1, "no v1 signature", func(h map[string]string) { h["--signature"] = "v9,x" })
	verify(2, "--secret", func(h map[string]string) { h["--secret"] = "x" })
	held := p.transact(t, "held", preparing(s.URL+"/check")).at("transaction.id")
	p.stop(t, syscall.SIGTERM)

	reseal := func(code int, says, keys string) {
		t.Helper()
		v := spawn(t, t.TempDir(), []string{"DATABASE_URL=" + url, "EVENTSVC_SECRET_KEY=" + keys}, "secrets", "reseal")
		if got := v.exit(t); got != code || !strings.Contains(v.out.String()+v.log.String(), says) {
			t.Errorf("exit code %d, said %s%s; want %d and %q", got, v.out, v.log, code, says)
		}
	}
	reseal(1, "sealed with a key", key("E"))
	reseal(0, "resealed 3", key("E")+","+key("A")) // a secret, a key pair, and that of a check
	reseal(0, "resealed 0", key("E"))
	q := start(t, url, []string{"EVENTSVC_SECRET_KEY=" + key("E")}, "serve")
	q.fire(t, "k2", `{"type":"a.b","data":1}`)
	again := s.next(t)
	db := pgtest.Open(t, url)
	eventually(t, func() bool {
		db.Exec(t.Context(), `UPDATE eventsvc.transactions SET check_at = now() WHERE check_at > now() AND checks = 0`)
		return q.call(t, "GET", "/v1/transactions/"+held, "").at("transaction.state") == "committed"
	}, func() string { return "the check was not asked" })
	if err := standard.Verify(again.header, again.body, time.Now(), secretOf(t, r.at("secret")).Signer()); err != nil {
		t.Error(err)
	}
}

// A fan-out receiver that signs with v1a from some day on gives every target a key pair,
// and one that no longer does signs with none.
func TestTargetsGetKeyPairsWhenTheirReceiverBeginsToSignSo(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, nil)
	p.declare(t, "f", `{"events":["*"],"fan_out":true}`)
	p.call(t, "PUT", "/v1/receivers/f/targets/old", `{"url":"`+s.URL+`"}`)
	keys := func(target string) answer { return p.call(t, "GET", "/v1/receivers/f/targets/"+target+"/keys", "") }
	signed := func(key string) int {
		t.Helper()
		p.fire(t, key, `{"type":"a.b","data":1}`)
		return strings.Count(s.next(t).header.Get("Webhook-Signature"), "v1a,")
	}
	if n := signed("1"); n != 0 || keys("old").list("data") != 0 {
		t.Errorf("before: %d, %s", n, keys("old").text)
	}
	p.declare(t, "f", `{"events":["*"],"fan_out":true,"signatures":["v1","v1a"]}`)
	first := keys("old").at("data.0.public_key")
	if n := signed("2"); n != 1 || !strings.HasPrefix(first, "whpk_") {
		t.Errorf("with v1a: %d, %s", n, keys("old").text)
	}
	p.declare(t, "f", `{"events":["*"],"fan_out":true,"signatures":["v1"]}`)
	if n := signed("3"); n != 0 || keys("old").list("data") != 0 {
		t.Errorf("without: %d, %s", n, keys("old").text)
	}
	p.declare(t, "f", `{"events":["*"],"fan_out":true,"signatures":["v1a"],"description":"again"}`)
	if n := signed("4"); n != 1 || keys("old").at("data.0.public_key") != first {
		t.Errorf("again: %d, %s; the key was %s", n, keys("old").text, first)
	}
}
