package e2e

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// again kills a service as a crash would and starts another over the same database.
func (p *process) again(t testing.TB, url string) *process {
	t.Helper()
	p.stop(t, syscall.SIGKILL)
	return start(t, url, nil, "serve")
}

// hold is a transaction of two events that is prepared, and not asked about before
// [askNow].
func (p *process) hold(t testing.TB, db *pgxpool.Pool, key, checkURL string) (id string) {
	t.Helper()
	a := p.transact(t, key, preparing(checkURL))
	if a.status != 201 || a.at("transaction.state") != "prepared" {
		t.Fatalf("prepare %s: %d %s", key, a.status, a.text)
	}
	do(t, db, `UPDATE eventsvc.transactions SET check_at = now() + interval '1 hour' WHERE check_at IS NOT NULL`)
	return a.at("transaction.id")
}

// askNow makes every check due.
func askNow(t testing.TB, db *pgxpool.Pool) {
	t.Helper()
	do(t, db, `UPDATE eventsvc.transactions SET check_at = now() WHERE check_at IS NOT NULL`)
}

func do(t testing.TB, db *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// state is what became of a transaction.
func (p *process) state(t testing.TB, id string) string {
	t.Helper()
	return p.call(t, "GET", "/v1/transactions/"+id, "").at("transaction.state")
}

// toldOf waits until all that is owed was delivered, and fails unless there are n events,
// n deliveries and n requests, one each.
func (p *process) toldOf(t testing.TB, db *pgxpool.Pool, s *shop, n int) {
	t.Helper()
	seen := map[string]bool{}
	for range n {
		seen[s.next(t).header.Get("Webhook-Id")] = true
	}
	p.nothingOwed(t)
	events, tried := count(t, db, `SELECT count(*) FROM eventsvc.events`), count(t, db, `SELECT count(*) FROM eventsvc.attempts`)
	settled := count(t, db, `SELECT count(*) FROM eventsvc.settled WHERE status = 'succeeded'`)
	if events != n || settled != n || tried != n || len(seen) != n || len(s.got) != 0 {
		t.Errorf("%d events, %d deliveries, %d attempts, %d webhooks and %d more requests, want %d of each and no more", events, settled, tried, len(seen), len(s.got), n)
	}
}

func TestWhatIsPreparedOutlivesTheServiceThatHoldsIt(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	p, s := start(t, url, nil, "serve"), open(t, nil)
	oracle := open(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/asked" {
			w.WriteHeader(http.StatusTooEarly)
		}
	})
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`"}`)
	ids := map[string]string{}
	for _, key := range []string{"commit", "rollback", "asked"} {
		ids[key] = p.hold(t, db, key, oracle.URL+"/"+key)
	}
	p = p.again(t, url)
	for key, id := range ids {
		if a := p.transact(t, key, preparing(oracle.URL+"/"+key)); a.status != 201 || a.at("transaction.id") != id || a.at("transaction.state") != "prepared" || a.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("prepared again as %s: %d %s", key, a.status, a.text)
		}
	}
	if n := p.call(t, "GET", "/v1/events", "").list("data"); n != 0 || len(oracle.got) != 0 {
		t.Errorf("%d events are seen and %d callers asked before their time", n, len(oracle.got))
	}
	for _, verb := range []string{"commit", "rollback"} {
		if a := p.call(t, "POST", "/v1/transactions/"+ids[verb]+"/"+verb, ""); a.status != 200 || a.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: %d %s", verb, a.status, a.text)
		}
	}
	askNow(t, db)
	eventually(t, func() bool { return p.state(t, ids["asked"]) == "committed" }, func() string { return "asked: " + p.state(t, ids["asked"]) })
	p.toldOf(t, db, s, 4)
	if commit, rollback := p.state(t, ids["commit"]), p.state(t, ids["rollback"]); commit != "committed" || rollback != "rolled_back" || len(oracle.got) != 1 {
		t.Errorf("%s, %s, and %d questions, want one", commit, rollback, len(oracle.got))
	}
}

// Where a commit is when the service dies: its caller hears nothing, and says again, or
// the contrary.
func TestACommitThatAKillCutsOffIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		block, arrange string
		left, verb     string
		status, events int
	}{
		"before it, then committed":   {lockedRow, ``, "prepared", "commit", 200, 2},
		"before it, then rolled back": {lockedRow, ``, "prepared", "rollback", 200, 0},
		"within it, then committed":   {lockedEnd, endless, "committed", "commit", 200, 2},
		"within it, then rolled back": {lockedEnd, endless, "committed", "rollback", 409, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			db := pgtest.Open(t, url)
			p, s := start(t, url, nil, "serve"), open(t, nil)
			p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`"}`)
			id := p.hold(t, db, "k", s.URL+"/check")
			if c.arrange != "" {
				do(t, db, c.arrange)
			}
			lock, err := db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Rollback(t.Context())
			if _, err := lock.Exec(t.Context(), c.block); err != nil {
				t.Fatal(err)
			}
			unheard := make(chan error, 1)
			go func() {
				_, err := p.try("POST", "/v1/transactions/"+id+"/commit", "")
				unheard <- err
			}()
			eventually(t, func() bool { return count(t, db, waiting) == 1 }, func() string { return "the commit does not come to the lock" })
			p.stop(t, syscall.SIGKILL)
			if err := <-unheard; err == nil {
				t.Error("the commit was answered before the kill")
			}
			if err := lock.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { return count(t, db, ofService) == 0 }, func() string { return "the dead service's connections do not end" })

			p = start(t, url, nil, "serve")
			if left := p.state(t, id); left != c.left {
				t.Errorf("the kill left it %s, want %s", left, c.left)
			}
			a := p.call(t, "POST", "/v1/transactions/"+id+"/"+c.verb, "")
			replayed := c.left == "committed" && c.verb == "commit"
			if a.status != c.status || (a.header.Get("Idempotent-Replayed") == "true") != replayed || c.status == 409 && a.at("code") != "transaction-decided" {
				t.Errorf("%s: %d %v %s", c.verb, a.status, a.header, a.text)
			}
			p.toldOf(t, db, s, c.events)
		})
	}
}

// Two places for a commit to wait in: before it reads what it decides, and once its writes
// are made and its COMMIT is on the way, which the server then ends without its client.
const (
	lockedRow = `SELECT 1 FROM eventsvc.transactions FOR UPDATE`
	lockedEnd = `SELECT pg_advisory_xact_lock(4711)`
	endless   = `
CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER wait AFTER UPDATE ON eventsvc.transactions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.wait()`
	ofService = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'eventsvc/%' AND application_name <> 'eventsvc/test'`
	waiting   = ofService + ` AND wait_event_type = 'Lock'`
)

// The service dies while a caller makes up its mind: that one is asked once more, and its
// answer counts once.
func TestACheckThatAKillCutsOffIsPutAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	p, s := start(t, url, nil, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`"}`)
	answers := map[string]int{"/yes": http.StatusOK, "/no": http.StatusConflict}
	var mu sync.Mutex
	asked := map[string]int{}
	oracle := open(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		first := asked[r.URL.Path] == 1
		mu.Unlock()
		if first {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(answers[r.URL.Path])
	})
	yes, no := p.hold(t, db, "yes", oracle.URL+"/yes"), p.hold(t, db, "no", oracle.URL+"/no")
	askNow(t, db)
	for range 2 {
		if q := oracle.next(t); !strings.Contains(string(q.body), `"check":1`) {
			t.Errorf("asked %s", q.body)
		}
	}
	p = p.again(t, url)
	if a, b := p.state(t, yes), p.state(t, no); a != "prepared" || b != "prepared" {
		t.Errorf("the kill left them %s and %s", a, b)
	}
	askNow(t, db)
	eventually(t, func() bool { return p.state(t, yes) == "committed" && p.state(t, no) == "rolled_back" }, func() string { return p.state(t, yes) + " and " + p.state(t, no) })
	for range 2 {
		if q := oracle.next(t); !strings.Contains(string(q.body), `"check":2`) {
			t.Errorf("asked again %s", q.body)
		}
	}
	p.toldOf(t, db, s, 2)
	if len(oracle.got) != 0 {
		t.Errorf("%d questions more than two each", len(oracle.got))
	}
}
