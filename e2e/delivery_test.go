package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// P1, P7: what was posted arrives, signed, byte for byte.
func TestASignedWebhookArrives(t *testing.T) {
	t.Parallel()
	p, s := start(t, pgtest.URL(t), nil, "serve"), open(t, nil)
	declared := p.declare(t, "shop.mail", `{"events":["order.*"],"url":"`+s.URL+`/hook","due":"10ms"}`)
	if declared.status != 201 || declared.header.Get("Location") != "/v1/receivers/shop.mail" || declared.header.Get("ETag") != `"1"` {
		t.Errorf("declared: %d %v", declared.status, declared.header)
	}
	const data = "{ \"z\": 1,  \"a\": 123456789012345678901234567890.50, \"s\":\"\\u0000\u2028<&>\", \"z\":2 }"
	fired := p.fire(t, "k1", `{"type":"order.placed","data":`+data+`,"correlation_id":"cart-7"}`)
	w := s.next(t)
	oracle, err := standardwebhooks.NewWebhook(declared.at("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if err := oracle.Verify(w.body, w.header); err != nil {
		t.Errorf("the reference library says: %v", err)
	}
	want := `{"type":"order.placed","timestamp":"` + fired.at("event.recorded_at") + `","data":` + data + `}`
	if string(w.body) != want {
		t.Errorf("got %s\nwant %s", w.body, want)
	}
	id := fired.at("deliveries.0.id")
	d := p.settled(t, id, "succeeded")
	if d.at("due_at") == "" {
		t.Errorf("a delivery of a receiver with due has no due time: %s", d.text)
	}
	// A receiver that is not fanned out has no target to name.
	for name, want := range map[string]string{"Webhook-Id": id, "Eventsvc-Delivery-Id": id, "Eventsvc-Event-Id": fired.at("event.id"), "Eventsvc-Event-Type": "order.placed",
		"Eventsvc-Receiver": "shop.mail", "Eventsvc-Target": "", "Eventsvc-Attempt": "1", "Eventsvc-Max-Attempts": "20", "Eventsvc-Due-At": d.at("due_at"),
		"Eventsvc-Correlation-Id": "cart-7", "Content-Type": "application/json", "Tracestate": "", "Baggage": ""} {
		if got := w.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if agent := w.header.Get("User-Agent"); !strings.HasPrefix(agent, "eventsvc/") {
		t.Errorf("User-Agent is %q", agent)
	}
	if d.at("attempts") != "1" || d.at("attempt_log.0.outcome") != "succeeded" || d.at("attempt_log.0.http_status") != "200" || d.at("completed_at") == "" {
		t.Errorf("got %s", d.text)
	}
	if again := p.call(t, "GET", "/v1/receivers/shop.mail", ""); strings.Contains(again.text, "whsec_") {
		t.Error("the secret was shown twice")
	}
	if e := p.call(t, "GET", "/v1/events/"+fired.at("event.id"), ""); e.at("deliveries.0.status") != "succeeded" || e.at("event.correlation_id") != "cart-7" {
		t.Errorf("got %s", e.text)
	}
}

// P3, P7.
func TestRetriesKeepTheWebhookID(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			http.Error(w, "not now", http.StatusInternalServerError)
		}
	})
	declared := p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","backoff_base":"10ms","backoff_cap":"20ms"}`)
	fired := p.fire(t, "k", `{"type":"a.b","data":{"n":1}}`)
	oracle, err := standardwebhooks.NewWebhook(declared.at("secret"))
	if err != nil {
		t.Fatal(err)
	}
	var first webhook
	for n := 1; n <= 3; n++ {
		w := s.next(t)
		if n == 1 {
			first = w
		}
		if w.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || string(w.body) != string(first.body) || w.header.Get("Eventsvc-Attempt") != fmt.Sprint(n) {
			t.Errorf("attempt %d: %v %s", n, w.header, w.body)
		}
		if err := oracle.Verify(w.body, w.header); err != nil {
			t.Errorf("attempt %d: %v", n, err)
		}
	}
	d := p.settled(t, fired.at("deliveries.0.id"), "succeeded")
	var trail []string
	for n := range d.list("attempt_log") {
		var words []string
		for _, field := range []string{"number", "outcome", "class", "http_status", "response.body"} {
			words = append(words, d.at(fmt.Sprintf("attempt_log.%d.%s", n, field)))
		}
		trail = append(trail, strings.TrimSpace(strings.Join(words, " ")))
	}
	want := []string{"1 failed http_5xx 500 not now", "2 failed http_5xx 500 not now", "3 succeeded  200"}
	if !slices.Equal(trail, want) || d.at("attempts") != "3" {
		t.Errorf("the trail is %q, want %q, in %s", trail, want, d.text)
	}
}

// P3: until the budget is spent, and not once more.
func TestASpentBudgetIsDead(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","backoff_base":"5ms","backoff_cap":"5ms","max_attempts":3}`)
	id := p.fire(t, "k", `{"type":"a.b","data":null}`).at("deliveries.0.id")
	d := p.settled(t, id, "dead")
	if len(s.got) != 3 || d.at("attempts") != "3" || !strings.Contains(d.at("why"), "all 3 attempts are spent") || d.at("next_attempt_at") != "" {
		t.Errorf("%d requests; %s", len(s.got), d.text)
	}
	if n := strings.Count(p.log.String(), "receiver r failed delivery "+id+" on attempt "); n != 3 {
		t.Errorf("%d lines of the failure log, want 3", n)
	}
	dead := p.call(t, "GET", "/v1/deliveries?status=dead&receiver=r", "")
	if dead.list("data") != 1 || dead.at("data.0.id") != id {
		t.Errorf("got %s", dead.text)
	}
}

// P4.
func TestADeadReceiverDelaysNobody(t *testing.T) {
	t.Parallel()
	p, good := start(t, pgtest.URL(t), nil, "serve"), open(t, nil)
	hanging := open(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p.declare(t, "hangs", `{"events":["*"],"url":"`+hanging.URL+`","max_concurrency":2}`)
	p.declare(t, "good", `{"events":["*"],"url":"`+good.URL+`"}`)
	for n := range 20 {
		p.fire(t, fmt.Sprint("k", n), `{"type":"a.b","data":1}`)
	}
	for range 20 {
		good.next(t)
	}
	if len(hanging.got) > 2 {
		t.Errorf("%d requests at once at the one that hangs, want 2", len(hanging.got))
	}
}

// P2, over HTTP.
func TestOneKeyOneFiring(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p, s := start(t, url, nil, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	const body = `{"type":"a.b","data":{"x":1,"y":[2]},"metadata":{"m":"1"}}`

	for name, c := range map[string]struct {
		headers []string
		code    string
	}{
		"missing":  {nil, "idempotency-key-missing"},
		"empty":    {[]string{"Idempotency-Key", ""}, "idempotency-key-missing"},
		"twice":    {[]string{"Idempotency-Key", "a", "Idempotency-Key", "a"}, "idempotency-key-invalid"},
		"too long": {[]string{"Idempotency-Key", strings.Repeat("k", 256)}, "idempotency-key-invalid"},
		"unclosed": {[]string{"Idempotency-Key", `"a`}, "idempotency-key-invalid"},
	} {
		if a := p.call(t, "POST", "/v1/events", body, c.headers...); a.status != 400 || a.at("code") != c.code {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
	}

	first := p.fire(t, "key-1", body)
	for name, c := range map[string][2]string{
		"the same":                 {"key-1", body},
		"quoted":                   {`"key-1"`, body},
		"members in another order": {"key-1", `{"metadata":{"m":"1"}, "data":{"y":[2],"x":1}, "type":"a.b"}`},
	} {
		a := p.call(t, "POST", "/v1/events", c[1], "Idempotency-Key", c[0])
		if a.status != 201 || a.header.Get("Idempotent-Replayed") != "true" || a.text != first.text || a.header.Get("Location") != first.header.Get("Location") {
			t.Errorf("%s: %d %v %s", name, a.status, a.header, a.text)
		}
	}
	if a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":{"x":2}}`, "Idempotency-Key", "key-1"); a.status != 422 || a.at("code") != "idempotency-key-reused" {
		t.Errorf("another body: %d %s", a.status, a.text)
	}

	var all sync.WaitGroup
	ids := make([]string, 50)
	for i := range ids {
		all.Go(func() {
			a, err := p.try("POST", "/v1/events", body, "Idempotency-Key", "key-50")
			if err != nil || a.status != 201 {
				t.Errorf("one of fifty: %v %d %s", err, a.status, a.text)
			}
			ids[i] = a.at("event.id")
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Errorf("one key gave %s and %s", id, ids[0])
		}
	}
	s.next(t)
	s.next(t)
	for list, want := range map[string]int{"/v1/events": 2, "/v1/deliveries": 2, "/v1/deliveries?status=succeeded": 2} {
		var a answer
		eventually(t, func() bool { a = p.call(t, "GET", list, ""); return a.list("data") == want },
			func() string { return "two keys did not give two of each: " + list + ": " + a.text })
	}
	if len(s.got) != 0 {
		t.Errorf("%d webhooks too many", len(s.got))
	}
	keyInUse(t, url, p, body)
}

func keyInUse(t *testing.T, url string, p *process, body string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `BEGIN; INSERT INTO eventsvc.fire_keys VALUES (0, 'held', gen_random_uuid(), sha256('x'), '[]')`); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	a := p.call(t, "POST", "/v1/events", body, "Idempotency-Key", "held")
	if a.status != 409 || a.at("code") != "idempotency-key-in-use" || a.header.Get("Retry-After") == "" || time.Since(began) > 3*time.Second {
		t.Errorf("a held key: %d %s after %v", a.status, a.text, time.Since(began))
	}
	p.fire(t, "free", body)
	if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if a := p.fire(t, "held", body); a.header.Get("Idempotent-Replayed") != "" {
		t.Error("a key whose holder rolled back is still spent")
	}
}

// P5: whoever runs, one delivery is one request.
func TestTwoRelaysNeverSendTwice(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p, s := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve"), open(t, nil)
	start(t, url, nil, "relay", "--worker-id", "same")
	start(t, url, nil, "relay", "--worker-id", "same")
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			if a, err := p.try("POST", "/v1/events", `{"type":"a.b","data":1}`, "Idempotency-Key", fmt.Sprint("k", i)); err != nil || a.status != 201 {
				t.Errorf("%v %d", err, a.status)
			}
		})
	}
	all.Wait()
	seen := map[string]int{}
	for range 300 {
		seen[s.next(t).header.Get("Webhook-Id")]++
	}
	for _, owed := range []string{"claimed", "pending", "failed"} {
		eventually(t, func() bool { return p.call(t, "GET", "/v1/deliveries?status="+owed, "").list("data") == 0 }, func() string { return "some remain " + owed })
	}
	if len(seen) != 300 || len(s.got) != 0 {
		t.Errorf("%d deliveries, %d requests too many", len(seen), len(s.got))
	}
}

// P9.
func TestSIGTERMLosesNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	release := make(chan struct{})
	p := start(t, url, nil, "serve")
	s := open(t, func(int, http.ResponseWriter, *http.Request) { <-release })
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","max_concurrency":5}`)
	for n := range 10 {
		p.fire(t, fmt.Sprint("k", n), `{"type":"a.b","data":1}`)
	}
	for range 5 {
		s.next(t)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	eventually(t, func() bool {
		a, err := p.try("GET", "/readyz", "")
		return err == nil && a.status == 503
	}, func() string { return "/readyz does not turn red" })
	close(release)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if len(s.got) != 0 {
		t.Errorf("%d requests after the signal", len(s.got))
	}
	q := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	for status, want := range map[string]int{"succeeded": 5, "pending": 5, "claimed": 0} {
		a := q.call(t, "GET", "/v1/deliveries?status="+status, "")
		if got := a.list("data"); got != want {
			t.Errorf("%d are %s, want %d", got, status, want)
		}
		for n := range a.list("data") {
			recorded := 0
			if status == "succeeded" {
				recorded = 1
			}
			if d := q.call(t, "GET", "/v1/deliveries/"+a.at(fmt.Sprint("data.", n, ".id")), ""); d.list("attempt_log") != recorded || d.at("attempts") != fmt.Sprint(recorded) {
				t.Errorf("want %d attempts: %s", recorded, d.text)
			}
		}
	}
}

func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.fire(t, "k", `{"type":"a.b","data":1}`)
	s.next(t)
	p.cmd.Process.Signal(syscall.SIGTERM)
	eventually(t, func() bool { a, err := p.try("GET", "/readyz", ""); return err == nil && a.status == 503 }, func() string { return "/readyz does not turn red" })
	if code := p.stop(t, syscall.SIGTERM); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}

// P3, P5, P6: a relay that dies in mid-attempt costs one lease and one more request.
func TestAKilledRelayIsRecoveredByItsLease(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	s := open(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done()
		}
	})
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","timeout":"1s","lease":"6500ms"}`)
	first := start(t, url, nil, "relay", "--worker-id", "w1")
	id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	one := s.next(t)
	first.stop(t, syscall.SIGKILL)
	start(t, url, nil, "relay", "--worker-id", "w1")
	if d := p.call(t, "GET", "/v1/deliveries/"+id, ""); d.at("status") != "claimed" {
		t.Errorf("before the lease lapsed: %s", d.text)
	}
	two := s.next(t)
	if one.header.Get("Webhook-Id") != two.header.Get("Webhook-Id") || string(one.body) != string(two.body) {
		t.Error("the second request is not the same webhook")
	}
	d := p.settled(t, id, "succeeded")
	if d.list("attempt_log") != 2 || d.at("attempt_log.0.outcome") != "unknown" || d.at("attempt_log.1.outcome") != "succeeded" || d.at("attempts") != "1" {
		t.Errorf("got %s", d.text)
	}
}
