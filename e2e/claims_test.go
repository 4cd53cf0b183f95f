package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// hand is a worker elsewhere: a program in any language that speaks HTTP.
type hand struct {
	*process
	name string
}

// claim asks for deliveries of the lane default.
func (h hand) claim(t testing.TB, most int, wait string) (held []work) {
	t.Helper()
	a := h.call(t, "POST", "/v1/lanes/default/claim", fmt.Sprintf(`{"worker":"%s","max":%d,"wait":"%s"}`, h.name, most, wait))
	if a.status != 200 {
		t.Fatalf("claim: %d %s", a.status, a.text)
	}
	for i := range a.list("deliveries") {
		at := func(path string) string { return a.at(fmt.Sprint("deliveries.", i, ".", path)) }
		held = append(held, work{h, at("id"), at("claimed_by"), at("claimed_at"), at})
	}
	return held
}

// work is a delivery that a worker holds.
type work struct {
	hand
	id, by, since string
	at            func(path string) string
}

func (w work) fence() string { return `"claimed_by":"` + w.by + `","claimed_at":"` + w.since + `"` }

func (w work) complete(t testing.TB, verdict string) answer {
	t.Helper()
	return w.call(t, "POST", "/v1/deliveries/"+w.id+"/complete", `{`+w.fence()+`,"verdict":`+verdict+`}`)
}

// task declares a receiver that workers claim for.
func (p *process) task(t testing.TB, key, fields string) {
	t.Helper()
	p.declare(t, key, `{"events":["`+key+`.*"],"site":"task"`+fields+`}`)
}

// lapse ends every lease: the rows are moved, not the clock.
func lapse(t testing.TB, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `UPDATE eventsvc.owed SET lease_until = now() - interval '1 second' WHERE claimed_by <> 0`); err != nil {
		t.Fatal(err)
	}
}

// The whole round of a worker: what it gets, and that nobody else runs it meanwhile.
func TestAWorkerElsewhereClaimsRunsAndCompletes(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_TEST_MODE=true"}, "serve")
	p.task(t, "import", `,"max_attempts":7,"lease":"2m"`)
	id := p.fire(t, "k", `{"type":"import.asked","data":{"big": 1e400, "z":1,"a":[ ]},"tenant":"north","subject":"file/7","metadata":{"a":"b"},"actor":{"key":"u1"}}`).at("deliveries.0.id")
	// A drain leaves it to its worker, and does not wait for one.
	if a := p.call(t, "POST", "/v1/testing/drain", ""); a.status != 200 || a.at("owed") != "1" {
		t.Errorf("drain: %d %s", a.status, a.text)
	}
	h := hand{p, "importer-1"}
	held := h.claim(t, 10, "0s")
	if len(held) != 1 || held[0].id != id {
		t.Fatalf("holds %v", held)
	}
	w := held[0]
	lease, err := time.Parse(time.RFC3339Nano, w.at("lease_until"))
	since, err2 := time.Parse("2006-01-02T15:04:05.000000Z", w.since)
	if err != nil || err2 != nil || lease.Sub(since) != 2*time.Minute {
		t.Errorf("claimed %q until %q: %v %v", w.since, w.at("lease_until"), err, err2)
	}
	for path, want := range map[string]string{"claimed_by": "importer-1", "attempt": "1", "max_attempts": "7", "receiver": "import", "webhook_id": id,
		"event.type": "import.asked", "event.tenant": "north", "event.subject": "file/7", "event.metadata.a": "b", "event.actor.key": "u1"} {
		if w.at(path) != want {
			t.Errorf("%s is %q, want %q", path, w.at(path), want)
		}
	}
	if a := p.call(t, "GET", "/v1/deliveries/"+id, ""); a.at("status") != "claimed" || a.at("claimed_by") != "importer-1" {
		t.Errorf("shown as %s", a.text)
	}
	if more := h.claim(t, 10, "0s"); len(more) != 0 {
		t.Errorf("it is given twice: %v", more)
	}
	if a := w.complete(t, `"success"`); a.status != 200 || a.at("status") != "succeeded" || a.at("attempt_log.0.outcome") != "succeeded" || a.at("attempt_log.0.worker") != "importer-1" {
		t.Errorf("completed: %d %s", a.status, a.text)
	}
	if a := w.complete(t, `"success"`); a.status != 409 || a.at("code") != "claim-lost" {
		t.Errorf("completed again: %d %s", a.status, a.text)
	}
}

// Numbers, escapes and the order of members are those that were posted.
func TestAWorkerGetsDataExactlyAsPosted(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	p.task(t, "import", "")
	const data = `{"z":1,"a":1e400,"n":9007199254740993,"s":"\u00e9"}`
	p.fire(t, "k", `{"type":"import.asked","data":`+data+`}`)
	a := p.call(t, "POST", "/v1/lanes/default/claim", `{"worker":"w"}`)
	if !strings.Contains(a.text, `"data":`+data) {
		t.Errorf("got %s", a.text)
	}
}

// P5: however many workers ask at once, each delivery has one.
func TestTwoWorkersElsewhereNeverHoldOneDelivery(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	other := start(t, url, nil, "serve")
	p.task(t, "import", "")
	const n = 120
	for i := range n {
		p.fire(t, fmt.Sprint(i), `{"type":"import.asked","data":1}`)
	}
	var mu sync.Mutex
	times := map[string]int{}
	var all sync.WaitGroup
	for i := range 6 {
		h := hand{[]*process{p, other}[i%2], "same-name"}
		all.Go(func() {
			for held := h.claim(t, 7, "0s"); len(held) > 0; held = h.claim(t, 7, "0s") {
				for _, w := range held {
					mu.Lock()
					times[w.id]++
					mu.Unlock()
					if a := w.complete(t, `"success"`); a.status != 200 {
						t.Errorf("complete: %d %s", a.status, a.text)
					}
				}
			}
		})
	}
	all.Wait()
	for id, k := range times {
		if k != 1 {
			t.Errorf("%s was given %d times", id, k)
		}
	}
	if len(times) != n {
		t.Errorf("%d of %d were given", len(times), n)
	}
	if a := p.call(t, "GET", "/v1/deliveries?status=succeeded&limit=200", ""); a.list("data") != n {
		t.Errorf("%d succeeded", a.list("data"))
	}
}

// P5: a worker whose lease ended records nothing, though it has the name of the one that
// has the delivery now.
func TestALapsedClaimIsAnotherWorkersAndTheFirstIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	p.task(t, "import", "")
	id := p.fire(t, "k", `{"type":"import.asked","data":1}`).at("deliveries.0.id")
	var stale []work
	for _, name := range []string{"w1", "w1", "w2"} {
		held := hand{p, name}.claim(t, 1, "0s")
		if len(held) != 1 {
			t.Fatalf("%s holds %v", name, held)
		}
		for _, old := range stale {
			for _, a := range []answer{old.complete(t, `"success"`), p.call(t, "POST", "/v1/deliveries/"+id+"/extend", `{`+old.fence()+`,"lease":"60s"}`)} {
				if a.status != 409 || a.at("code") != "claim-lost" {
					t.Errorf("a stale claim: %d %s", a.status, a.text)
				}
			}
		}
		stale = append(stale, held[0])
		if name != "w2" {
			lapse(t, url)
		}
	}
	last := stale[2]
	if a := last.complete(t, `"failure","error":"disk full"`); a.status != 200 || a.at("attempts") != "1" || a.list("attempt_log") != 3 ||
		a.at("attempt_log.0.outcome") != "unknown" || a.at("attempt_log.2.error") != "disk full" {
		t.Errorf("completed: %d %s", a.status, a.text)
	}
}

func TestALeaseIsExtendedUnderItsClaim(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	p.task(t, "import", `,"lease":"6s"`)
	p.fire(t, "k", `{"type":"import.asked","data":1}`)
	w := hand{p, "w"}.claim(t, 1, "0s")[0]
	// One that has lapsed, and that nobody has taken yet, is still in force.
	lapse(t, url)
	a := w.call(t, "POST", "/v1/deliveries/"+w.id+"/extend", `{`+w.fence()+`,"lease":"1h"}`)
	until, err := time.Parse(time.RFC3339Nano, a.at("lease_until"))
	if left := time.Until(until); a.status != 200 || err != nil || left < 58*time.Minute || left > 62*time.Minute {
		t.Errorf("extended: %d %s", a.status, a.text)
	}
	if more := (hand{p, "w2"}).claim(t, 1, "0s"); len(more) != 0 {
		t.Errorf("given to another: %v", more)
	}
	if a := w.complete(t, `"success"`); a.status != 200 {
		t.Errorf("completed: %d %s", a.status, a.text)
	}
}

// What a worker says means what it would mean from a receiver.
func TestAWorkersVerdictDecidesWhatHappens(t *testing.T) {
	t.Parallel()
	told := open(t, nil)
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_MAX_RETRY_AFTER=1h"}, "serve")
	soon := time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)
	for name, c := range map[string]struct {
		says, fields                      string
		becomes, attempts, outcome, class string
		least, most                       time.Duration
		failed                            bool
	}{
		"success":   {says: `"success"`, becomes: "succeeded", attempts: "1", outcome: "succeeded"},
		"failure":   {says: `"failure","error":"no such file"`, becomes: "failed", attempts: "1", outcome: "failed", class: "task", most: time.Hour, failed: true},
		"spent":     {says: `"failure"`, fields: `,"max_attempts":1`, becomes: "dead", attempts: "1", outcome: "failed", class: "task", failed: true},
		"permanent": {says: `"permanent"`, becomes: "dead", attempts: "1", outcome: "failed", class: "permanent", failed: true},
		"later":     {says: `"retry_after","retry_after_seconds":120`, becomes: "failed", attempts: "1", outcome: "deferred", class: "retry_after", least: 118 * time.Second, most: 121 * time.Second, failed: true},
		"clamped":   {says: `"retry_after","retry_after_seconds":9223372036854775807`, becomes: "failed", attempts: "1", outcome: "deferred", class: "retry_after", least: 58 * time.Minute, most: 61 * time.Minute, failed: true},
		"uncounted": {says: `"retry_after","retry_after_seconds":600,"counts":false`, fields: `,"give_up_after":"2d"`, becomes: "failed", attempts: "0", outcome: "deferred", class: "deferred", least: 598 * time.Second, most: 1201 * time.Second, failed: true},
		"declared":  {says: `"retry_after","retry_after_seconds":600`, fields: `,"count_deferrals":false,"give_up_after":"2d"`, becomes: "failed", attempts: "0", outcome: "deferred", class: "deferred", least: 598 * time.Second, most: 1201 * time.Second, failed: true},
		"gaveup":    {says: `"retry_after","retry_after_seconds":600,"counts":false`, fields: `,"give_up_after":"1ms"`, becomes: "dead", attempts: "0", outcome: "deferred", class: "gave_up", failed: true},
		"notyet":    {says: `"not_yet","not_before":"` + soon + `"`, becomes: "pending", attempts: "0", outcome: "not_yet", least: time.Hour, most: 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			p.declare(t, name, `{"events":["`+name+`.*"],"site":"task","lane":"`+name+`","backoff_base":"1h","on_failure":{"url":"`+told.URL+`"}`+c.fields+`}`)
			id := p.fire(t, name, `{"type":"`+name+`.x","data":1}`).at("deliveries.0.id")
			a := p.call(t, "POST", "/v1/lanes/"+name+"/claim", `{"worker":"w"}`)
			w := work{hand{p, "w"}, id, "w", a.at("deliveries.0.claimed_at"), nil}
			a = w.complete(t, c.says)
			if a.status != 200 || a.at("status") != c.becomes || a.at("attempts") != c.attempts || a.at("attempt_log.0.outcome") != c.outcome || a.at("attempt_log.0.class") != c.class {
				t.Fatalf("%d %s", a.status, a.text)
			}
			if c.most > 0 {
				next, err := time.Parse(time.RFC3339Nano, a.at("next_attempt_at"))
				if wait := time.Until(next); err != nil || wait < c.least || wait > c.most {
					t.Errorf("next in %s: %s", wait, a.text)
				}
			}
			line := fmt.Sprintf("receiver %s failed delivery %s on attempt 1 with %s; the row is %s", name, id, c.class, c.becomes)
			if !c.failed {
				if strings.Contains(p.log.String(), "failed delivery "+id) {
					t.Error("a failure line")
				}
				return
			}
			p.log.await(t, line)
			if heard := told.next(t); !strings.Contains(string(heard.body), id) || !strings.Contains(string(heard.body), c.becomes) {
				t.Errorf("on_failure was told %s", heard.body)
			}
		})
	}
	if a := p.call(t, "GET", "/metrics", ""); !strings.Contains(a.text, `eventsvc_deliveries_attempts_total{class="task"`) {
		t.Error("the attempts are not among the metrics")
	}
	if a := p.call(t, "GET", "/v1/lanes", ""); strings.Contains(p.log.String(), "asks to be left alone") {
		t.Errorf("a worker's deferral paused something: %s", a.text)
	}
}

// A claim that waits is woken by what is fired, here or elsewhere, and by the end of the
// service.
func TestAClaimThatWaitsIsWoken(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	env := []string{"EVENTSVC_POLL=1m"}
	p := start(t, url, append(env, "EVENTSVC_RELAY_WORKERS=0"), "serve")
	other := start(t, url, env, "serve")
	p.task(t, "import", "")
	for i, from := range []*process{p, other} {
		got := make(chan []work)
		go func() { got <- hand{p, "w"}.claim(t, 1, "15s") }()
		began := time.Now()
		from.fire(t, fmt.Sprint(i), `{"type":"import.asked","data":1}`)
		if held := <-got; len(held) != 1 || time.Since(began) > 8*time.Second {
			t.Errorf("%d: %d after %s", i, len(held), time.Since(began))
		}
	}
	if held := (hand{p, "w"}).claim(t, 1, "100ms"); len(held) != 0 {
		t.Errorf("holds %v", held)
	}
	answered := make(chan int, 1)
	go func() {
		a, err := p.try("POST", "/v1/lanes/default/claim", `{"worker":"late","wait":"30s"}`)
		if err != nil {
			t.Error(err)
		}
		answered <- a.status
	}()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	eventually(t, func() (known bool) {
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM eventsvc.workers WHERE name = 'late')`).Scan(&known); err != nil {
			t.Error(err)
		}
		return known
	}, func() string { return "the worker is not known" })
	began := time.Now()
	if code := p.stop(t, syscall.SIGTERM); code != 0 || time.Since(began) > 10*time.Second {
		t.Errorf("exit %d after %s", code, time.Since(began))
	}
	if status := <-answered; status != 200 && status != 503 {
		t.Errorf("the waiting worker was answered %d", status)
	}
}

// P4: a receiver with a long backlog takes an equal share and no more; within one the
// order is that of the contract.
func TestAClaimSharesAmongReceiversInOrder(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	p.task(t, "bulk", "")
	p.task(t, "mail", "")
	var bulk []string
	for i := range 9 {
		bulk = append(bulk, p.fire(t, fmt.Sprint("b", i), `{"type":"bulk.x","data":1}`).at("deliveries.0.id"))
	}
	for i := range 2 {
		p.fire(t, fmt.Sprint("m", i), `{"type":"mail.x","data":1}`)
	}
	of := func(held []work) (ids []string, mail int) {
		for _, w := range held {
			if w.at("receiver") == "mail" {
				mail++
			} else {
				ids = append(ids, w.id)
			}
		}
		return ids, mail
	}
	h := hand{p, "w"}
	if ids, mail := of(h.claim(t, 4, "0s")); mail != 2 || !slices.Equal(ids, bulk[:2]) {
		t.Errorf("first %v and %d of mail", ids, mail)
	}
	if ids, _ := of(h.claim(t, 100, "0s")); !slices.Equal(ids, bulk[2:]) {
		t.Errorf("then %v, want %v", ids, bulk[2:])
	}
}

// Pauses hold workers elsewhere as they hold relays, and what nobody here can run is not
// tried here.
func TestAPauseKeepsWorkFromWorkersElsewhere(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	p.task(t, "import", "")
	id := p.fire(t, "k", `{"type":"import.asked","data":1}`).at("deliveries.0.id")
	h := hand{p, "w"}
	for _, what := range []string{"/v1/receivers/import", "/v1/lanes/default"} {
		p.call(t, "POST", what+"/pause", "")
		if held := h.claim(t, 1, "0s"); len(held) != 0 {
			t.Errorf("%s is paused and gives %v", what, held)
		}
		p.call(t, "POST", what+"/resume", "")
	}
	for _, path := range []string{"/v1/deliveries/" + id + "/deliver", "/v1/receivers/import/test"} {
		if a := p.call(t, "POST", path, ""); a.status != 409 || a.at("code") != "conflict" {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	if held := h.claim(t, 1, "0s"); len(held) != 1 || held[0].at("attempt") != "1" {
		t.Errorf("holds %v", held)
	}
	// Its receiver gone, it is orphaned by the service's own relay once it is free.
	p.task(t, "gone", "")
	gone := p.fire(t, "g", `{"type":"gone.x","data":1}`).at("deliveries.0.id")
	if a := p.call(t, "DELETE", "/v1/receivers/gone?owed=orphan", ""); a.status != 204 && a.status != 200 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	p.settled(t, gone, "orphaned")
}

// A receiver is moved between the sites with what it is owed.
func TestAReceiverMovesBetweenItsSites(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, nil)
	p.task(t, "import", "")
	id := p.fire(t, "k", `{"type":"import.asked","data":1}`).at("deliveries.0.id")
	p.declare(t, "import", `{"events":["import.*"],"url":"`+s.URL+`"}`)
	p.settled(t, id, "succeeded")
	p.task(t, "import", "")
	id = p.fire(t, "l", `{"type":"import.asked","data":1}`).at("deliveries.0.id")
	if held := (hand{p, "w"}).claim(t, 1, "5s"); len(held) != 1 || held[0].id != id {
		t.Errorf("holds %v", held)
	}
	if a := p.call(t, "GET", "/v1/receivers/import", ""); a.at("site") != "task" || a.at("url") != "" {
		t.Errorf("shown as %s", a.text)
	}
	if a := p.call(t, "GET", "/v1/catalogue", ""); a.at("receivers.0.site") != "task" || a.at("receivers.0.destination") != "workers" {
		t.Errorf("catalogued as %s", a.text)
	}
}

func TestClaimsAreForKeysOfTheWholeService(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), asked, "serve")
	p.bearing(t, operatorKey, "PUT", "/v1/receivers/import", `{"events":["*"],"site":"task"}`)
	tenant, _ := p.issue(t, `{"name":"north","tenant":"north","scopes":`+tenantScopes+`}`)
	reader, _ := p.issue(t, `{"name":"r","scopes":["read","receivers:write","events:write"]}`)
	worker, _ := p.issue(t, `{"name":"w","scopes":["deliveries:write"]}`)
	fence := `{"claimed_by":"w","claimed_at":"2027-01-31T12:00:00.000123Z"`
	const id = "/v1/deliveries/dlv_01jxkg2c8zf3v9e4m6r7t8w9yb"
	for path, body := range map[string]string{"/v1/lanes/default/claim": `{"worker":"w"}`, id + "/extend": fence + `,"lease":"60s"}`, id + "/complete": fence + `,"verdict":"success"}`} {
		for _, key := range []string{tenant, reader} {
			if a := p.bearing(t, key, "POST", path, body); a.status != 403 || a.at("code") != "forbidden" {
				t.Errorf("%s: %d %s", path, a.status, a.text)
			}
		}
		if a := p.bearing(t, worker, "POST", path, body); a.status == 401 || a.status == 403 {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	if a := p.bearing(t, tenant, "PUT", "/v1/receivers/mine", `{"events":["*"],"site":"task"}`); a.status != 422 || a.at("errors.0.pointer") != "/site" {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestWhatBreaksARuleOfClaimsIsRefusedByName(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	p.task(t, "import", "")
	p.fire(t, "k", `{"type":"import.asked","data":1}`)
	w := hand{p, "w"}.claim(t, 1, "0s")[0]
	claim, extend, complete := "/v1/lanes/default/claim", "/v1/deliveries/"+w.id+"/extend", "/v1/deliveries/"+w.id+"/complete"
	for _, c := range []struct {
		path, body string
		status     int
		pointer    string
	}{
		{claim, `{}`, 422, "/worker"}, {claim, `{"worker":"a\u0000"}`, 422, "/worker"}, {claim, `{"worker":"` + strings.Repeat("x", 129) + `"}`, 422, "/worker"},
		{claim, `{"worker":"w","max":0}`, 422, "/max"}, {claim, `{"worker":"w","max":101}`, 422, "/max"},
		{claim, `{"worker":"w","wait":"31s"}`, 422, "/wait"}, {claim, `{"worker":"w","wait":"-1s"}`, 422, "/wait"}, {claim, `{"worker":"w","wait":20}`, 422, "/wait"},
		{claim, `{"worker":"w","most":1}`, 422, "/most"}, {claim, `{`, 400, ""}, {"/v1/lanes/none/claim", `{"worker":"w"}`, 404, ""},
		{extend, `{` + w.fence() + `}`, 422, "/lease"}, {extend, `{` + w.fence() + `,"lease":"0s"}`, 422, "/lease"}, {extend, `{` + w.fence() + `,"lease":"2d"}`, 422, "/lease"},
		{extend, `{"claimed_by":"w","claimed_at":"yesterday","lease":"60s"}`, 422, "/claimed_at"},
		{extend, `{"claimed_by":"w","claimed_at":"2027-01-31T12:00:00.0001234Z","lease":"60s"}`, 422, "/claimed_at"},
		{complete, `{` + w.fence() + `}`, 422, "/verdict"}, {complete, `{` + w.fence() + `,"verdict":"done"}`, 422, "/verdict"},
		{complete, `{"verdict":"success"}`, 422, "/claimed_by"},
		{complete, `{` + w.fence() + `,"verdict":"retry_after"}`, 422, "/retry_after_seconds"},
		{complete, `{` + w.fence() + `,"verdict":"retry_after","retry_after_seconds":-1}`, 422, "/retry_after_seconds"},
		{complete, `{` + w.fence() + `,"verdict":"success","retry_after_seconds":1}`, 422, "/retry_after_seconds"},
		{complete, `{` + w.fence() + `,"verdict":"failure","counts":false}`, 422, "/counts"},
		{complete, `{` + w.fence() + `,"verdict":"not_yet"}`, 422, "/not_before"},
		{complete, `{` + w.fence() + `,"verdict":"not_yet","not_before":"2001-01-01T00:00:00Z"}`, 422, "/not_before"},
		{complete, `{` + w.fence() + `,"verdict":"not_yet","not_before":"9001-01-01T00:00:00Z"}`, 422, "/not_before"},
		{"/v1/deliveries/dlv_01jxkg2c8zf3v9e4m6r7t8w9yb/complete", `{` + w.fence() + `,"verdict":"success"}`, 404, ""},
		{"/v1/deliveries/dlv_01jxkg2c8zf3v9e4m6r7t8w9yb/extend", `{` + w.fence() + `,"lease":"60s"}`, 404, ""},
		{complete, `{"claimed_by":"v","claimed_at":"` + w.since + `","verdict":"success"}`, 409, ""},
	} {
		if a := p.call(t, "POST", c.path, c.body); a.status != c.status || a.at("errors.0.pointer") != c.pointer {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.text)
		}
	}
	for pointer, field := range map[string]string{"/timeout": `"timeout":"1s"`, "/format": `"format":"raw"`,
		"/headers": `"headers":{"x-a":"b"}`, "/permanent_statuses": `"permanent_statuses":[]`, "/max_concurrency": `"max_concurrency":1`,
		"/pause_scope": `"pause_scope":"lane"`, "/trace": `"trace":false`, "/lease": `"lease":"5s"`, "/site": `"site":"tasks"`} {
		body := `{"events":["*"],"site":"task",` + field + `}`
		if pointer == "/site" {
			body = `{"events":["*"],"url":"http://127.0.0.1:1",` + field + `}`
		}
		if a := p.call(t, "PUT", "/v1/receivers/r", body); a.status != 422 || a.at("errors.0.pointer") != pointer {
			t.Errorf("%s: %d %s", field, a.status, a.text)
		}
	}
	// What the complaints were about still stands, byte for byte in its microseconds.
	var fence struct{ A string }
	if err := json.Unmarshal([]byte(`{"A":"`+w.since+`"}`), &fence); err != nil {
		t.Fatal(err)
	}
	if a := w.complete(t, `"success"`); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.text)
	}
}
