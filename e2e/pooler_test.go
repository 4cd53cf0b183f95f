package e2e

import (
	"context"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// T108, DB-02, DB-19: from the schema on, with two relays, retries, repeats of a key, and
// a pooler that dies.
func TestEverythingWorksThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]func(direct string) []string{
		"with LISTEN past it": func(direct string) []string {
			return []string{"EVENTSVC_LISTEN_DATABASE_URL=" + direct, "EVENTSVC_POLL=1h"}
		},
		"polling": func(string) []string { return []string{"EVENTSVC_WAKE=poll", "EVENTSVC_POLL=100ms"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.Empty(t)
			pooler := pgtest.StartPooler(t, direct)
			env := append(settings(direct), "EVENTSVC_AUTO_MIGRATE=true")
			p := start(t, pooler.URL(), append(slices.Clone(env), "EVENTSVC_RELAY_WORKERS=0"), "serve")
			relays := []*process{start(t, pooler.URL(), env, "relay"), start(t, pooler.URL(), env, "relay")}
			s := open(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Eventsvc-Attempt") == "1" && n%5 == 0 {
					w.WriteHeader(http.StatusInternalServerError)
				}
			})
			p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","backoff_base":"10ms","backoff_cap":"20ms","timeout":"1s","lease":"6500ms"}`)
			first := p.fire(t, "again", `{"type":"a.b","data":1}`)
			load := p.load(t, 8, "before", s)
			load.more(t, 200)
			if a := p.fire(t, "again", `{"data":1, "type":"a.b"}`); a.header.Get("Idempotent-Replayed") != "true" || a.text != first.text {
				t.Errorf("the key again: %v %s", a.header, a.text)
			}
			if a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":2}`, "Idempotency-Key", "again"); a.status != 422 {
				t.Errorf("the key for another event: %d %s", a.status, a.text)
			}
			load.delivered(t)
			p.nothingOwed(t)
			if refused := load.answers(); len(refused) > 0 {
				t.Errorf("fires were refused: %v", refused)
			}
			requests, recorded := load.requests()+len(s.got), attempts(t, direct)
			if requests != recorded {
				t.Errorf("%d requests for %d attempts", requests, recorded)
			}

			pooler.Stop()
			if a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":3}`, "Idempotency-Key", "during"); a.status != 503 || a.header.Get("Retry-After") == "" {
				t.Errorf("without the pooler: %d %s", a.status, a.text)
			}
			pooler.Start(t)
			after := p.load(t, 4, "after", s)
			after.more(t, 50)
			after.delivered(t)
			for _, path := range []string{"/v1/events?type=a.b", "/v1/deliveries?receiver=r", "/v1/receivers", "/v1/receivers/r"} {
				if a := p.call(t, "GET", path, ""); a.status != 200 {
					t.Errorf("%s: %d %s", path, a.status, a.text)
				}
			}
			for _, relay := range relays {
				if code := relay.stop(t, syscall.SIGTERM); code != 0 {
					t.Errorf("exit code %d, want 0", code)
				}
			}
		})
	}
}

// attempts is how many are on record.
func attempts(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM eventsvc.attempts`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A LISTEN that hears nothing is said to, and polling does its work.
func TestALISTENThroughATransactionPoolerIsSaidToBeDeaf(t *testing.T) {
	t.Parallel()
	pooler := pgtest.StartPooler(t, pgtest.URL(t))
	p, s := start(t, pooler.URL(), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve"), open(t, nil)
	relay := start(t, pooler.URL(), []string{"EVENTSVC_POLL=50ms"}, "relay")
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.fire(t, "k", `{"type":"a.b","data":1}`)
	s.next(t)
	relay.log.await(t, `"level":"WARN","msg":"LISTEN is deaf`)
}

// T103.
func TestPollingNeitherListensNorNotifies(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	spy, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Close(context.Background())
	if _, err := spy.Exec(t.Context(), `LISTEN eventsvc_wake`); err != nil {
		t.Fatal(err)
	}
	p, s := start(t, url, []string{"EVENTSVC_WAKE=poll", "EVENTSVC_POLL=50ms"}, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.settled(t, p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id"), "succeeded")
	var listeners int
	if err := spy.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'eventsvc/listen' AND datname = current_database()`).Scan(&listeners); err != nil {
		t.Fatal(err)
	}
	p.stop(t, syscall.SIGTERM)
	if _, err := spy.Exec(t.Context(), `NOTIFY eventsvc_wake, 'end'`); err != nil {
		t.Fatal(err)
	}
	if n, err := spy.WaitForNotification(t.Context()); err != nil || n.Payload != "end" || listeners != 0 {
		t.Errorf("%d listen, heard %v, %v", listeners, n, err)
	}
}
