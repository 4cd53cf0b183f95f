package e2e

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// P9, T104, STOP-03.
func TestFiftyAttemptsUnderWayAtASIGTERMAreFinishedAndTheRestIsOthersAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	release := make(chan struct{})
	s := open(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n <= 50 {
			<-release
		}
	})
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","max_concurrency":50}`)
	for n := range 70 {
		p.fire(t, fmt.Sprint("k", n), `{"type":"a.b","data":1}`)
	}
	relay := start(t, url, []string{"EVENTSVC_SHUTDOWN_GRACE=20s"}, "relay")
	seen := map[string]int{}
	for range 50 {
		seen[s.next(t).header.Get("Webhook-Id")]++
	}
	relay.cmd.Process.Signal(syscall.SIGTERM)
	relay.log.await(t, "stopping: nothing more is claimed")
	for n := range 5 {
		p.fire(t, fmt.Sprint("late", n), `{"type":"a.b","data":1}`)
	}
	for status, want := range map[string]int{"claimed": 50, "pending": 25} {
		if a := p.call(t, "GET", "/v1/deliveries?limit=200&status="+status, ""); a.list("data") != want {
			t.Errorf("%d are %s after the signal, want %d", a.list("data"), status, want)
		}
	}
	close(release)
	if code := relay.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for status, want := range map[string]int{"succeeded": 50, "pending": 25} {
		if a := p.call(t, "GET", "/v1/deliveries?limit=200&status="+status, ""); a.list("data") != want {
			t.Errorf("%d are %s after the end, want %d", a.list("data"), status, want)
		}
	}
	start(t, url, nil, "relay")
	began := time.Now()
	for range 25 {
		seen[s.next(t).header.Get("Webhook-Id")]++
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the rest came %v later; its leases were waited for", took)
	}
	if len(seen) != 75 || len(s.got) != 0 {
		t.Errorf("%d deliveries, %d requests too many", len(seen), len(s.got))
	}
}

// T105, STOP-01.
func TestASIGTERMEndsAProcessWhoseDatabaseIsAway(t *testing.T) {
	t.Parallel()
	db := ownDatabase(t)
	wire := pgtest.StartWire(t, db.URL())
	env := []string{"EVENTSVC_AUTO_MIGRATE=true", "EVENTSVC_SHUTDOWN_GRACE=2s"}
	s := open(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done()
		}
	})
	busy := start(t, db.URL(), env, "serve")
	busy.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","timeout":"10s","lease":"16s"}`)
	id := busy.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	s.next(t)
	idle, silenced := start(t, db.URL(), env, "serve"), start(t, wire.URL(), env, "serve")

	wire.Freeze()
	db.end()
	for _, c := range []struct {
		name    string
		process *process
		within  time.Duration
	}{
		{"connections that say nothing", silenced, 17 * time.Second}, // T105: 15 s, and the time to connect
		{"nothing under way", idle, 3 * time.Second},
		{"an attempt under way", busy, 6 * time.Second},
	} {
		eventually(t, func() bool { return c.process.call(t, "GET", "/readyz", "").status == 503 }, func() string { return c.name + ": /readyz stays green" })
		began := time.Now()
		code := c.process.stop(t, syscall.SIGTERM)
		if took := time.Since(began); code != 0 || took > c.within {
			t.Errorf("%s: exit code %d after %v, want 0 within %v", c.name, code, took, c.within)
		}
	}

	db.begin(t)
	next := start(t, db.URL(), nil, "serve")
	s.next(t)
	d := next.settled(t, id, "succeeded")
	if d.list("attempt_log") != 2 || d.at("attempt_log.0.outcome") != "unknown" || d.at("attempts") != "1" {
		t.Errorf("got %s", d.text)
	}
}

// P9: a verdict that waits for the database is worth its grace.
func TestAStopRecordsItsVerdictsOnceTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	db := ownDatabase(t)
	release := make(chan struct{})
	s := open(t, func(int, http.ResponseWriter, *http.Request) { <-release })
	p := start(t, db.URL(), []string{"EVENTSVC_AUTO_MIGRATE=true"}, "serve")
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	s.next(t)
	db.end()
	close(release)
	p.log.await(t, "verdicts could not be recorded yet")
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.log.await(t, "stopping: nothing more is claimed")
	db.begin(t)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	d := start(t, db.URL(), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve").settled(t, id, "succeeded")
	if d.list("attempt_log") != 1 || len(s.got) != 0 {
		t.Errorf("%d requests more: %s", len(s.got), d.text)
	}
}

// T104: 128 and the signal's number, and what was cut comes back when its lease lapses.
func TestASecondSignalCutsWhatIsUnderWayUntilItsLeaseLapses(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	s := open(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done()
		}
	})
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","timeout":"3s","lease":"8500ms"}`)
	relay := start(t, url, nil, "relay")
	id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	s.next(t)
	relay.cmd.Process.Signal(syscall.SIGTERM)
	relay.log.await(t, "stopping: nothing more is claimed")
	if code := relay.stop(t, syscall.SIGINT); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	start(t, url, nil, "relay")
	lease, err := time.Parse(time.RFC3339Nano, p.call(t, "GET", "/v1/deliveries/"+id, "").at("lease_until"))
	if err != nil {
		t.Fatal(err)
	}
	s.next(t)
	d := p.settled(t, id, "succeeded")
	again, err := time.Parse(time.RFC3339Nano, d.at("attempt_log.1.started_at"))
	if err != nil || again.Before(lease) || d.list("attempt_log") != 2 || d.at("attempt_log.0.outcome") != "unknown" || d.at("attempts") != "1" {
		t.Errorf("its lease was until %v: %v %s", lease, err, d.text)
	}
}
