package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// T20 to T23, T39, T117, T118, RETRY-01 to RETRY-05: what a receiver can say, one row
// each, seen from outside.
func TestWhatAReceiverSaysDecidesWhatHappens(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_MAX_RETRY_AFTER=1h"}, "serve")
	soon := time.Now().Add(2 * time.Hour).UTC()
	for name, c := range map[string]struct {
		status   int
		headers  []string
		fields   string
		becomes  string
		attempts string
		outcome  string
		class    string
		least    time.Duration
		most     time.Duration
	}{
		"2xx":                     {status: 204, becomes: "succeeded", attempts: "1", outcome: "succeeded"},
		"410":                     {status: 410, becomes: "dead", attempts: "1", outcome: "failed", class: "permanent"},
		"404":                     {status: 404, becomes: "failed", attempts: "1", outcome: "failed", class: "http_4xx", most: time.Hour},
		"404 declared permanent":  {status: 404, fields: `,"permanent_statuses":[404]`, becomes: "dead", attempts: "1", outcome: "failed", class: "permanent"},
		"permanent by its header": {status: 500, headers: []string{"Eventsvc-Verdict", "permanent"}, becomes: "dead", attempts: "1", outcome: "failed", class: "permanent"},
		"redirect":                {status: 302, headers: []string{"Location", "http://192.0.2.1/"}, becomes: "failed", attempts: "1", outcome: "failed", class: "http_3xx", most: time.Hour},
		"seconds":                 {status: 503, headers: []string{"Retry-After", "120"}, becomes: "failed", attempts: "1", outcome: "deferred", class: "retry_after", least: 119 * time.Second, most: 121 * time.Second},
		"IMF date":                {status: 429, headers: []string{"Retry-After", time.Now().Add(30 * time.Minute).UTC().Format(http.TimeFormat)}, becomes: "failed", attempts: "1", outcome: "deferred", class: "retry_after", least: 29 * time.Minute, most: 31 * time.Minute},
		"RFC 850 date":            {status: 429, headers: []string{"Retry-After", time.Now().Add(30 * time.Minute).UTC().Format("Monday, 02-Jan-06 15:04:05 GMT")}, becomes: "failed", attempts: "1", outcome: "deferred", class: "retry_after", least: 29 * time.Minute, most: 31 * time.Minute},
		"asctime date":            {status: 429, headers: []string{"Retry-After", time.Now().Add(30 * time.Minute).UTC().Format(time.ANSIC)}, becomes: "failed", attempts: "1", outcome: "deferred", class: "retry_after", least: 29 * time.Minute, most: 31 * time.Minute},
		"date in the past":        {status: 429, headers: []string{"Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT"}, fields: `,"max_attempts":1`, becomes: "dead", attempts: "1", outcome: "deferred", class: "retry_after"},
		"year 9999":               {status: 429, headers: []string{"Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"}, becomes: "failed", attempts: "1", outcome: "deferred", class: "retry_after", least: 59 * time.Minute, most: 61 * time.Minute},
		"9999999999":              {status: 429, headers: []string{"Retry-After", "9999999999"}, becomes: "failed", attempts: "1", outcome: "deferred", class: "retry_after", least: 59 * time.Minute, most: 61 * time.Minute},
		"forty digits":            {status: 429, headers: []string{"Retry-After", strings.Repeat("9", 40)}, becomes: "failed", attempts: "1", outcome: "deferred", class: "retry_after", least: 59 * time.Minute, most: 61 * time.Minute},
		"negative":                {status: 429, headers: []string{"Retry-After", "-5"}, becomes: "failed", attempts: "1", outcome: "failed", class: "http_4xx", most: time.Hour},
		"words":                   {status: 503, headers: []string{"Retry-After", "abc"}, becomes: "failed", attempts: "1", outcome: "failed", class: "http_5xx", most: time.Hour},
		"empty":                   {status: 503, headers: []string{"Retry-After", ""}, becomes: "failed", attempts: "1", outcome: "failed", class: "http_5xx", most: time.Hour},
		"two of them":             {status: 503, headers: []string{"Retry-After", "7", "Retry-After", "7"}, becomes: "failed", attempts: "1", outcome: "failed", class: "http_5xx", most: time.Hour},
		"on a 500":                {status: 500, headers: []string{"Retry-After", "7"}, becomes: "failed", attempts: "1", outcome: "failed", class: "http_5xx", most: time.Hour},
		"uncounted":               {status: 503, headers: []string{"Retry-After", "600"}, fields: `,"count_deferrals":false,"give_up_after":"2d"`, becomes: "failed", attempts: "0", outcome: "deferred", class: "deferred", least: 599 * time.Second, most: 1201 * time.Second},
		"uncounted by its header": {status: 429, headers: []string{"Retry-After", "600", "Eventsvc-Counts", "false"}, fields: `,"give_up_after":"2d"`, becomes: "failed", attempts: "0", outcome: "deferred", class: "deferred", least: 599 * time.Second, most: 1201 * time.Second},
		"uncounted, unbounded":    {status: 429, headers: []string{"Retry-After", "600", "Eventsvc-Counts", "false"}, becomes: "failed", attempts: "1", outcome: "deferred", class: "retry_after", least: 599 * time.Second, most: 601 * time.Second},
		"given up":                {status: 429, headers: []string{"Retry-After", "600"}, fields: `,"count_deferrals":false,"give_up_after":"1ms"`, becomes: "dead", attempts: "0", outcome: "deferred", class: "gave_up"},
		"not yet":                 {status: 425, headers: []string{"Eventsvc-Not-Before", soon.Format(time.RFC3339)}, becomes: "pending", attempts: "0", outcome: "not_yet", least: time.Hour, most: 3 * time.Hour},
		"not yet, in the past":    {status: 425, headers: []string{"Eventsvc-Not-Before", "2001-01-01T00:00:00Z"}, becomes: "failed", attempts: "1", outcome: "failed", class: "http_4xx", most: time.Hour},
		"not yet, no offset":      {status: 425, headers: []string{"Eventsvc-Not-Before", "2101-01-01T00:00:00"}, becomes: "failed", attempts: "1", outcome: "failed", class: "http_4xx", most: time.Hour},
		"425 alone":               {status: 425, becomes: "failed", attempts: "1", outcome: "failed", class: "http_4xx", most: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				for i := 0; i < len(c.headers); i += 2 {
					w.Header().Add(c.headers[i], c.headers[i+1])
				}
				w.WriteHeader(c.status)
			})
			key := strings.NewReplacer(" ", "-", ",", "").Replace(name)
			// Each in a lane of its own: a deferral pauses the lane.
			p.declare(t, key, `{"events":["`+"t"+strconv.Itoa(len(key))+"_"+strings.ReplaceAll(strings.ToLower(key), "-", "_")+`"],"url":"`+s.URL+`","lane":"`+key+`","backoff_base":"1h"`+c.fields+`}`)
			id := p.fire(t, key, `{"type":"`+"t"+strconv.Itoa(len(key))+"_"+strings.ReplaceAll(strings.ToLower(key), "-", "_")+`","data":1}`).at("deliveries.0.id")
			var d answer
			eventually(t, func() bool {
				d = p.call(t, "GET", "/v1/deliveries/"+id, "")
				return d.list("attempt_log") > 0 && d.at("status") != "claimed"
			}, func() string { return d.text })
			if d.at("status") != c.becomes || d.at("attempts") != c.attempts || d.at("attempt_log.0.outcome") != c.outcome || d.at("attempt_log.0.class") != c.class {
				t.Errorf("got %s", d.text)
			}
			if c.becomes == "failed" || c.becomes == "pending" {
				next, err := time.Parse(time.RFC3339, d.at("next_attempt_at"))
				if wait := time.Until(next); err != nil || wait < c.least-5*time.Second || wait > c.most {
					t.Errorf("next attempt in %v, want %v to %v: %v", wait, c.least, c.most, err)
				}
			}
			if c.outcome == "not_yet" && d.at("due_at") == "" {
				t.Errorf("its due time has not moved: %s", d.text)
			}
		})
	}
	for _, said := range []string{"it will wait 1h, which is as long as is allowed", "defers without give_up_after"} {
		if !strings.Contains(p.log.String(), said) {
			t.Errorf("the log does not say %q", said)
		}
	}
}

// T24: a burst into a quota that is gone costs one call a pause, and all of it arrives
// once the quota is back.
func TestABurstIntoAThrottleCostsOneCallAPause(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	var gone atomic.Bool
	gone.Store(true)
	s := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if gone.Load() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
		}
	})
	p.declare(t, "mailer", `{"events":["*"],"url":"`+s.URL+`","max_attempts":1,"count_deferrals":false,"give_up_after":"2d"}`)
	began := time.Now()
	const burst = 300
	for n := range burst {
		p.fire(t, fmt.Sprint(n), `{"type":"a.b","data":1}`)
	}
	eventually(t, func() bool { return time.Since(began) > 3*time.Second }, func() string { return "no time passes" })
	calls, pauses := len(s.got), int(time.Since(began)/time.Second)+1
	if calls < 2 || calls > pauses {
		t.Errorf("%d calls in %d pauses", calls, pauses)
	}
	gone.Store(false)
	eventually(t, func() bool {
		a := p.call(t, "GET", "/v1/status", "")
		return a.at("owed") == "0" && a.at("dead") == "0"
	},
		func() string { return p.call(t, "GET", "/v1/status", "").text })
	if n := len(s.got); n < burst || n > burst+pauses+8 {
		t.Errorf("%d calls in all", n)
	}
}

// T15, LOST-12: what is stored and cannot be decoded is dead, and hides nothing.
func TestWhatCannotBeDecodedIsDeadAndTheNextIsDelivered(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	s, _ := moody(t, 200)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.declare(t, "broken", `{"events":["other"],"url":"`+s.URL+`"}`)
	bad := p.fire(t, "1", `{"type":"a.b","data":1}`)
	good := p.fire(t, "2", `{"type":"a.b","data":2}`)
	broken := p.fire(t, "3", `{"type":"other","data":3}`)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{
		`UPDATE eventsvc.events SET data = '{"a":' WHERE idempotency_key = '1'`,
		`UPDATE eventsvc.registry SET revision = revision + 1`,
		`UPDATE eventsvc.receivers SET declaration = declaration || '{"timeout": 7}', revision = (SELECT revision FROM eventsvc.registry) WHERE key = 'broken'`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	relay := start(t, url, nil, "relay")
	d := p.settled(t, bad.at("deliveries.0.id"), "dead")
	if d.at("attempt_log.0.class") != "decode" || !strings.Contains(d.at("why"), "cannot be decoded: ") || d.at("attempts") != "1" {
		t.Errorf("got %s", d.text)
	}
	for _, fired := range []answer{good, broken} {
		for _, i := range []string{"0", "1"} {
			switch fired.at("deliveries." + i + ".receiver") {
			case "r":
				p.settled(t, fired.at("deliveries."+i+".id"), "succeeded")
			case "broken":
				d := p.settled(t, fired.at("deliveries."+i+".id"), "dead")
				if !strings.Contains(d.at("why"), "timeout") {
					t.Errorf("got %s", d.text)
				}
			}
		}
	}
	relay.log.await(t, "with decode; the row is dead")
	if a := p.call(t, "GET", "/v1/receivers", ""); a.status != 200 || !strings.Contains(a.text, `"unusable":"the stored declaration`) {
		t.Errorf("the list: %d %s", a.status, a.text)
	}
	// What it wants can be read still: it is owed what is fired, and once it is declared
	// anew, that can be requeued.
	late := p.fire(t, "4", `{"type":"other","data":4}`)
	if !strings.Contains(late.text, `"broken"`) {
		t.Errorf("a receiver whose declaration is damaged is owed nothing: %s", late.text)
	}
	p.declare(t, "broken", `{"events":["other"],"url":"`+s.URL+`"}`)
	p.call(t, "POST", "/v1/deliveries/requeue", `{"receiver":"broken"}`)
	eventually(t, func() bool {
		return p.call(t, "GET", "/v1/deliveries?receiver=broken&status=succeeded", "").list("data") == 2
	},
		func() string { return p.call(t, "GET", "/v1/deliveries?receiver=broken", "").text })
}

// LOST-16, T44: a row under which that many workers were lost is dead, and the trail has
// each of them.
func TestARowThatKillsItsWorkersIsPoison(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	env := []string{"EVENTSVC_MAX_CLAIMS=2", "EVENTSVC_POLL=50ms"}
	p := start(t, url, append(env, "EVENTSVC_RELAY_WORKERS=0"), "serve")
	hold := make(chan struct{})
	s := open(t, func(int, http.ResponseWriter, *http.Request) { <-hold })
	t.Cleanup(func() { close(hold) }) // before the server is closed, which waits for its handlers
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","timeout":"1s","lease":"6.1s"}`)
	id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for range 2 {
		relay := start(t, url, env, "relay", "--worker-id", "w1")
		s.next(t)
		if err := relay.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		relay.exit(t)
		// The rows are moved, not the clock.
		if _, err := conn.Exec(t.Context(), `UPDATE eventsvc.owed SET lease_until = now() - interval '1 second' WHERE claimed_by <> 0`); err != nil {
			t.Fatal(err)
		}
	}
	last := start(t, url, env, "relay", "--worker-id", "w1")
	d := p.settled(t, id, "dead")
	if d.list("attempt_log") != 2 || d.at("attempt_log.0.outcome") != "unknown" || d.at("attempt_log.1.class") != "poison" || !strings.Contains(d.at("why"), "too many workers") || d.at("attempts") != "0" {
		t.Errorf("got %s", d.text)
	}
	if strings.Contains(last.log.String(), "failed delivery") {
		t.Errorf("a failure line for an attempt that nobody recorded: %s", last.log)
	}
}
