package e2e

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// grip is a lock on what is owed, held in a transaction.
func grip(t testing.TB, db *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM eventsvc.owed FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	return tx
}

// loosen ends the sessions that wait for a grip, whose process is dead, and lets it go.
func loosen(t testing.TB, db *pgxpool.Pool, held pgx.Tx) {
	t.Helper()
	do(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name LIKE 'eventsvc/%'`)
	eventually(t, func() bool { return count(t, db, waiting) == 0 }, func() string { return "the dead worker's sessions do not end" })
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A worker is killed at each of its steps: before it has the row, in the request, and with
// the answer in its hand. Another finds the delivery once the lease has lapsed.
func TestAWorkerThatIsKilledAtAnyStepLosesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before   bool // it takes the row
		answers  bool // the first request
		requests int
		trail    []string
	}{
		"before it takes":    {before: true, requests: 1, trail: []string{"succeeded"}},
		"in the request":     {requests: 2, trail: []string{"unknown", "succeeded"}},
		"before its verdict": {answers: true, requests: 2, trail: []string{"unknown", "succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, nats := pgtest.URL(t), startBroker(t)
			p, db := start(t, url, nats.env(), "serve"), pgtest.Open(t, url)
			var held pgx.Tx
			s := open(t, func(n int, _ http.ResponseWriter, r *http.Request) {
				switch {
				case c.before || n > 1:
				case c.answers:
					held = grip(t, db)
				default:
					<-r.Context().Done()
				}
			})
			p.declare(t, "import", `{"events":["import.*"],"site":"task","url":"`+s.URL+`"}`)
			id := p.fire(t, "k", `{"type":"import.asked","data":1}`).at("deliveries.0.id")
			p.settled(t, id, "claimed")
			if c.before {
				held = grip(t, db)
			}
			worker := start(t, url, nats.env(), "worker")
			if !c.before {
				s.next(t)
			}
			if c.before || c.answers {
				eventually(t, func() bool { return count(t, db, waiting) > 0 }, func() string { return "the worker does not come to the row" })
			}
			worker.stop(t, syscall.SIGKILL)
			if held != nil {
				loosen(t, db, held)
			}
			start(t, url, nats.env(), "worker")
			lapse(t, url)
			d := p.settled(t, id, "succeeded")
			requests := len(s.got)
			if !c.before {
				requests++
			}
			if requests != c.requests || d.list("attempt_log") != len(c.trail) || d.at("attempts") != "1" {
				t.Errorf("%d requests, want %d: %s", requests, c.requests, d.text)
			}
			for i, outcome := range c.trail {
				if got := d.at("attempt_log." + strconv.Itoa(i) + ".outcome"); got != outcome {
					t.Errorf("attempt %d is %s, want %s: %s", i, got, outcome, d.text)
				}
			}
		})
	}
}

// Workers are killed, and NATS is stopped and wiped, again and again. Every delivery is made,
// and no request is made that the trail does not show.
func TestAStormOverWorkersAndNATSLosesNothing(t *testing.T) {
	t.Parallel()
	const n = 120
	url, nats := pgtest.URL(t), startBroker(t)
	p, db := start(t, url, nats.env(), "serve"), pgtest.Open(t, url)
	var requests atomic.Int32
	s := open(t, func(int, http.ResponseWriter, *http.Request) { requests.Add(1) })
	p.declare(t, "import", `{"events":["import.*"],"site":"task","url":"`+s.URL+`","max_attempts":100}`)
	done := func() int { return count(t, db, `SELECT count(*) FROM eventsvc.settled WHERE status = 'succeeded'`) }
	worker := start(t, url, nats.env(), "worker")
	fired := 0
	for round, strike := range []func(){
		func() {}, nats.Stop, func() { nats.again(t) }, func() { nats.wipe(t) }, func() {}, func() { nats.wipe(t) },
	} {
		for range n / 6 {
			fired++
			p.fire(t, strconv.Itoa(fired), `{"type":"import.asked","data":1}`)
		}
		strike()
		if round%2 == 0 {
			worker.stop(t, syscall.SIGKILL)
			worker = start(t, url, nats.env(), "worker")
		}
		lapse(t, url)
	}
	eventually(t, func() bool { lapse(t, url); return done() == n }, func() string { return strconv.Itoa(done()) + " are delivered" })
	p.nothingOwed(t)
	shown := count(t, db, `SELECT count(*) FROM eventsvc.attempts`)
	good := count(t, db, `SELECT count(*) FROM eventsvc.attempts WHERE outcome = 'succeeded'`)
	if asked := int(requests.Load()); good != n || asked < n || asked > shown {
		t.Errorf("%d requests for %d deliveries, %d attempts on record, of which %d succeeded", asked, n, shown, good)
	}
}
