package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

const checkSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

func (p *process) transact(t testing.TB, key, body string) answer {
	t.Helper()
	return p.call(t, "POST", "/v1/transactions", body, "Idempotency-Key", key)
}

func TestEventsAreFiredTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, nil)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`"}`)
	p.call(t, "PUT", "/v1/event-types/order.paid", `{"schema":{"type":"object","required":["total"]}}`)
	body := `{"events":[{"type":"order.placed","data": {"n" : 1.0}},{"type":"quiet","data":2,"subject":"s"},{"type":"order.placed","data":3}]}`
	first := p.transact(t, "k", body)
	if first.status != 201 || first.list("events") != 3 || first.at("transaction.state") != "committed" || first.at("transaction.prepared") != "false" ||
		first.at("events.0.deliveries.0.receiver") != "r" || first.at("events.1.event.subject") != "s" || !strings.Contains(first.text, `"deliveries":[]`) ||
		first.header.Get("Location") != "/v1/transactions/"+first.at("transaction.id") {
		t.Fatalf("%d %s", first.status, first.text)
	}
	if got := string(s.next(t).body) + string(s.next(t).body); !strings.Contains(got, `{"n" : 1.0}`) || !strings.Contains(got, `"data":3`) {
		t.Errorf("delivered %s", got)
	}
	for name, again := range map[string]string{"the same": body, "in another order": `{"prepare":false,"events":[{"data":{"n":1.0},"type":"order.placed"},{"subject":"s","type":"quiet","data":2},{"type":"order.placed","data":3}]}`} {
		a := p.transact(t, "k", again)
		if a.status != 201 || a.header.Get("Idempotent-Replayed") != "true" || a.at("events.2.event.id") != first.at("events.2.event.id") || a.at("events.0.deliveries.0.id") != first.at("events.0.deliveries.0.id") {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
	}
	if a := p.call(t, "GET", first.header.Get("Location"), ""); a.status != 200 || a.at("events.0.event.id") != first.at("events.0.event.id") {
		t.Errorf("looked at: %d %s", a.status, a.text)
	}
	for name, c := range map[string]struct {
		key, body string
		status    int
		says      []string
	}{
		"another body":          {"k", `{"events":[{"type":"order.placed","data":1}]}`, 422, []string{"idempotency-key-reused"}},
		"one that breaks rules": {"x", `{"events":[{"type":"quiet","data":1},{"type":"Q","data":1},{"typ":"a","data":1}]}`, 422, []string{`"/events/1/type"`, `"/events/2/typ"`}},
		"one against schema":    {"x", `{"events":[{"type":"quiet","data":1},{"type":"order.paid","data":{}}]}`, 422, []string{`"/events/1/data"`}},
		"one too large":         {"x", `{"events":[{"type":"quiet","data":1},{"type":"a","data":"` + strings.Repeat("x", 256<<10) + `"}]}`, 413, []string{"events/1", "262144"}},
		"none":                  {"x", `{"events":[]}`, 422, []string{`"/events"`}},
		"nothing":               {"x", `{}`, 422, []string{`"/events"`}},
		"no array":              {"x", `{"events":{}}`, 422, []string{`"/events"`}},
		"too many":              {"x", `{"events":[` + strings.Repeat(`{"type":"a","data":1},`, 100) + `{"type":"a","data":1}]}`, 422, []string{"101 events"}},
		"a check alone":         {"x", `{"events":[{"type":"a","data":1}],"check":{"url":"https://shop.example.com/","secret":"` + checkSecret + `"}}`, 422, []string{`"/check"`}},
		"prepare alone":         {"x", `{"events":[{"type":"a","data":1}],"prepare":true}`, 422, []string{`"/check"`}},
		"a check without":       {"x", `{"events":[{"type":"a","data":1}],"prepare":true,"check":{"url":"https://shop.example.com/"}}`, 422, []string{`"/check/secret"`}},
		"a check elsewhere":     {"x", `{"events":[{"type":"a","data":1}],"prepare":true,"check":{"url":"ftp://shop.example.com/","secret":"` + checkSecret + `"}}`, 422, []string{`"/check/url"`}},
		"no key":                {"", body, 400, []string{"idempotency-key-missing"}},
	} {
		a := p.transact(t, c.key, c.body)
		for _, says := range c.says {
			if a.status != c.status || !strings.Contains(a.text, says) {
				t.Errorf("%s: %d %s, want %d with %s", name, a.status, a.text, c.status, says)
			}
		}
	}
	if a := p.call(t, "POST", "/v1/events", `{"type":"quiet","data":2}`, "Idempotency-Key", "k"); a.status != 422 || a.at("code") != "idempotency-key-reused" {
		t.Errorf("a fire under the key of a transaction: %d %s", a.status, a.text)
	}
	p.fire(t, "single", `{"type":"quiet","data":2}`)
	if a := p.transact(t, "single", `{"events":[{"type":"quiet","data":2}]}`); a.status != 422 || a.at("code") != "idempotency-key-reused" {
		t.Errorf("a transaction under the key of a fire: %d %s", a.status, a.text)
	}
	if n := p.call(t, "GET", "/v1/events", "").list("data"); n != 4 {
		t.Errorf("%d events are stored, want 4", n)
	}
}

func TestManyAtOnceUnderOneKeyAreOneTransaction(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	var under sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		under.Go(func() {
			for range 50 {
				a := p.transact(t, "k", `{"events":[{"type":"a","data":1},{"type":"b","data":2}]}`)
				if a.status == 201 {
					ids[i] = a.at("events.0.event.id") + a.at("events.1.event.id")
					return
				}
				if a.status != 409 && a.status != 503 {
					t.Errorf("%d %s", a.status, a.text)
					return
				}
			}
		})
	}
	under.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Errorf("answered %v", ids)
		}
	}
	if n := p.call(t, "GET", "/v1/events", "").list("data"); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

// preparing is a transaction of two events that are held.
func preparing(checkURL string) string {
	return fmt.Sprintf(`{"prepare":true,"check":{"url":%q,"secret":%q},"events":[{"type":"order.placed","data":1},{"type":"order.placed","data":[1, 2.0]}]}`, checkURL, checkSecret)
}

func TestWhatIsPreparedIsSeenOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, nil)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`"}`)
	held := p.transact(t, "k", preparing(s.URL+"/check"))
	id := held.at("transaction.id")
	if held.status != 201 || held.at("transaction.state") != "prepared" || held.list("events") != 0 || held.at("transaction.held.1") != "order.placed" ||
		held.at("transaction.check.url") != s.URL+"/check" || held.at("transaction.check.next_at") == "" || strings.Contains(held.text, "whsec_") {
		t.Fatalf("%d %s", held.status, held.text)
	}
	if a := p.transact(t, "k", preparing(s.URL+"/check")); a.status != 201 || a.at("transaction.id") != id || a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %d %s", a.status, a.text)
	}
	if a := p.transact(t, "k", strings.Replace(preparing(s.URL+"/check"), `"data":1`, `"data":7`, 1)); a.status != 422 {
		t.Errorf("another: %d %s", a.status, a.text)
	}
	if n := p.call(t, "GET", "/v1/events", "").list("data"); n != 0 {
		t.Errorf("%d events are seen before the commit", n)
	}
	if a := p.call(t, "GET", "/v1/transactions?state=prepared", ""); a.list("data") != 1 || a.at("data.0.id") != id {
		t.Errorf("the list: %s", a.text)
	}
	if a := p.call(t, "GET", "/v1/transactions?state=prepared&older_than=1h", ""); a.list("data") != 0 {
		t.Errorf("older ones: %s", a.text)
	}
	if a := p.call(t, "GET", "/v1/status", ""); a.at("transactions.prepared") != "1" {
		t.Errorf("the status: %s", a.text)
	}
	gone := p.transact(t, "k2", preparing(s.URL+"/check")).at("transaction.id")
	// A commit is never refused: not by a type that is stricter by now.
	p.call(t, "PUT", "/v1/event-types/order.placed", `{"schema":{"type":"string"}}`)
	done := p.call(t, "POST", "/v1/transactions/"+id+"/commit", "")
	if done.status != 200 || done.at("transaction.state") != "committed" || done.list("events") != 2 || done.at("events.0.deliveries.0.receiver") != "r" || done.at("transaction.check.next_at") != "" {
		t.Fatalf("commit: %d %s", done.status, done.text)
	}
	if got := string(s.next(t).body) + string(s.next(t).body); !strings.Contains(got, `[1, 2.0]`) {
		t.Errorf("delivered %s", got)
	}
	if a := p.call(t, "POST", "/v1/transactions/"+id+"/commit", ""); a.status != 200 || a.at("events.1.event.id") != done.at("events.1.event.id") || a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("commit again: %d %s", a.status, a.text)
	}
	if a := p.call(t, "POST", "/v1/transactions/"+id+"/rollback", ""); a.status != 409 || a.at("code") != "transaction-decided" {
		t.Errorf("rollback after commit: %d %s", a.status, a.text)
	}
	if a := p.transact(t, "k", preparing(s.URL+"/check")); a.status != 201 || a.at("transaction.state") != "committed" || a.at("transaction.id") != id {
		t.Errorf("prepared again: %d %s", a.status, a.text)
	}

	for range 2 {
		if a := p.call(t, "POST", "/v1/transactions/"+gone+"/rollback", ""); a.status != 200 || a.at("transaction.state") != "rolled_back" || a.list("events") != 0 {
			t.Errorf("rollback: %d %s", a.status, a.text)
		}
	}
	if a := p.call(t, "POST", "/v1/transactions/"+gone+"/commit", ""); a.status != 409 {
		t.Errorf("commit after rollback: %d %s", a.status, a.text)
	}
	if a := p.call(t, "GET", "/v1/events", ""); a.list("data") != 2 {
		t.Errorf("events: %s", a.text)
	}
	if a := p.call(t, "POST", "/v1/transactions/tx_01jxkg2c8zf3v9e4m6r7t8w9yc/commit", ""); a.status != 404 {
		t.Errorf("one that is not: %d %s", a.status, a.text)
	}
}

// The caller died between its own commit and ours: it is asked, by a signed request, and
// what it says is done. One that never says waits for a person.
func TestACallerThatIsSilentIsAskedWhatBecameOfItsChange(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	db := pgtest.Open(t, url)
	answers := map[string][]int{}
	var mu sync.Mutex
	oracle, err := standardwebhooks.NewWebhook(checkSecret)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		left := answers[r.URL.Path]
		if len(left) == 0 {
			w.WriteHeader(425)
			return
		}
		answers[r.URL.Path] = left[1:]
		w.WriteHeader(left[0])
	})
	ids := map[string]string{}
	for path, list := range map[string][]int{"/yes": {200}, "/no": {409}, "/later": {425, 500, 302, 200}, "/never": nil} {
		answers[path] = list
		ids[path] = p.transact(t, path, preparing(s.URL+path)).at("transaction.id")
	}
	due := func() {
		t.Helper()
		if _, err := db.Exec(t.Context(), `UPDATE eventsvc.transactions SET check_at = now() WHERE check_at > now()`); err != nil {
			t.Fatal(err)
		}
	}
	state := func(path string) answer { return p.call(t, "GET", "/v1/transactions/"+ids[path], "") }
	eventually(t, func() bool {
		due()
		return state("/yes").at("transaction.state") == "committed" && state("/no").at("transaction.state") == "rolled_back" &&
			state("/later").at("transaction.state") == "committed" && state("/never").at("transaction.state") == "in_doubt"
	}, func() string {
		return state("/yes").text + state("/no").text + state("/later").text + state("/never").text
	})
	if a := state("/later"); a.list("events") != 2 {
		t.Errorf("asked until it said yes: %s", a.text)
	}
	a := state("/never")
	if len(a.at("transaction.check.checks")) != 2 || a.at("transaction.check.next_at") != "" || !strings.Contains(a.at("transaction.check.last"), "425") {
		t.Errorf("never: %s", a.text)
	}
	if a := p.call(t, "GET", "/v1/status", ""); a.at("transactions.in_doubt") != "1" {
		t.Errorf("the status: %s", a.text)
	}
	if !strings.Contains(p.log.String(), "a transaction is in doubt") {
		t.Error("the log does not tell of the doubt")
	}
	q := s.next(t)
	var asked struct {
		Type string
		Data struct {
			Transaction string    `json:"transaction_id"`
			Key         string    `json:"idempotency_key"`
			Made        time.Time `json:"created_at"`
			Check       int
		}
	}
	if err := json.Unmarshal(q.body, &asked); err != nil || asked.Type != "eventsvc.transaction.check" || ids[asked.Data.Key] != asked.Data.Transaction || asked.Data.Check != 1 || asked.Data.Made.IsZero() {
		t.Errorf("asked %s", q.body)
	}
	if err := oracle.Verify(q.body, q.header); err != nil {
		t.Error(err)
	}
	// A person decides.
	if a := p.call(t, "POST", "/v1/transactions/"+ids["/never"]+"/commit", ""); a.status != 200 || a.list("events") != 2 {
		t.Errorf("decided: %d %s", a.status, a.text)
	}
	if n := p.call(t, "GET", "/v1/events", "").list("data"); n != 6 {
		t.Errorf("%d events, want 6", n)
	}
}
