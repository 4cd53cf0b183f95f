package function_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/function"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// house is a fresh database with a function receiver in it, and what calls it.
type house struct {
	*function.Caller
	pool   *pgxpool.Pool // ours, which looks
	calls  *pgxpool.Pool // the caller's, of one connection
	ledger *ledger.Ledger
	worker event.WorkerID
	target event.TargetID
	to     *event.Target
}

// open has the caller reach the database by a way of its own, which "" is not.
func open(t testing.TB, url, way string) *house {
	t.Helper()
	if way == "" {
		way = url
	}
	h := &house{pool: pgtest.Open(t, url)}
	var err error
	if h.calls, err = pg.Open(t.Context(), way, pg.PoolOptions{Name: "function", MaxConns: 1, Foreign: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.calls.Close)
	h.Caller, h.ledger = function.New(h.calls, h.pool, slog.New(slog.DiscardHandler)), ledger.New(h.pool)
	if h.worker, err = h.ledger.Enroll(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	h.exec(t, `CREATE SCHEMA app; CREATE TABLE app.effects (delivery text, what text)`)
	var id int32
	if err := h.pool.QueryRow(t.Context(), `
		WITH r AS (INSERT INTO eventsvc.receivers (key, lane_id, declaration, revision) VALUES ('k', 1, '{}', 1) RETURNING id)
		INSERT INTO eventsvc.targets (receiver_id, url, revision) SELECT id, '', 1 FROM r RETURNING id`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	h.target = event.TargetID(id)
	h.to = &event.Target{ID: h.target, Receiver: &event.Receiver{Key: "k", Function: "app.f", Timeout: 3 * time.Second, Lease: 30 * time.Second,
		MaxAttempts: 3, Terms: event.Terms{CountDeferrals: true}}}
	return h
}

func (h *house) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := h.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// body makes the function anew: it writes one effect, and then does something.
func (h *house) body(t testing.TB, does string) {
	t.Helper()
	h.exec(t, `CREATE OR REPLACE FUNCTION app.f(event jsonb, context jsonb) RETURNS void LANGUAGE plpgsql AS $f$
		BEGIN INSERT INTO app.effects VALUES (context ->> 'delivery_id', event::text); `+does+` END $f$`)
}

// owe writes an event with that data, and claims its delivery.
func (h *house) owe(t testing.TB, data string) *event.Claim {
	t.Helper()
	var b pgx.Batch
	d := ledger.Debt{ID: event.NewID(time.Now()), EventID: event.NewID(time.Now()), TargetID: h.target, MaxAttempts: 3}
	b.Queue(`INSERT INTO eventsvc.events (id, type, producer, idempotency_key, data, actor, metadata) VALUES ($1, 'a.b', 0, $2, $3, '{"key":"u1"}', '{"a":"b"}')`,
		[16]byte(d.EventID), d.EventID.Text(event.EventPrefix), []byte(data))
	ledger.Owe(&b, []ledger.Debt{d})
	if err := h.pool.SendBatch(context.Background(), &b).Close(); err != nil {
		t.Fatal(err)
	}
	return h.claim(t)
}

func (h *house) claim(t testing.TB) *event.Claim {
	t.Helper()
	claimed, err := h.ledger.Claim(t.Context(), h.worker, 10, []ledger.Quota{{Target: h.target, N: 1, Lease: h.to.Receiver.Lease}})
	if err != nil || len(claimed.Claims) != 1 {
		t.Fatalf("claimed %d, %v", len(claimed.Claims), err)
	}
	c := claimed.Claims[0]
	c.To = h.to
	return c
}

func (h *house) take(t testing.TB, c *event.Claim) *function.Call {
	t.Helper()
	call, err := h.Take(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(call.End)
	return call
}

// attempt makes one whole call of one new delivery.
func (h *house) attempt(t testing.TB, data string) (c *event.Claim, v event.Verdict, recorded bool) {
	t.Helper()
	c = h.owe(t, data)
	call := h.take(t, c)
	defer call.End()
	if v = call.Make(t.Context()); v.Ruling != event.Success {
		return c, v, false
	}
	recorded, instead := call.Acknowledge(t.Context(), h.worker, success(c))
	if instead != nil {
		v = *instead
	}
	return c, v, recorded
}

func success(c *event.Claim) ledger.Entry {
	return ledger.Entry{Fence: c.Fence, Settlement: event.Settlement{Status: event.Succeeded, Spent: 1, Outcome: event.OutcomeSucceeded},
		Attempt: event.Attempt{Number: c.Attempt(), StartedAt: time.Now(), Outcome: event.OutcomeSucceeded}}
}

func (h *house) effects(t testing.TB, c *event.Claim) (n int) {
	t.Helper()
	if err := h.pool.QueryRow(t.Context(), `SELECT count(*) FROM app.effects WHERE delivery = $1`, c.Delivery.Text(event.DeliveryPrefix)).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (h *house) status(t testing.TB, c *event.Claim) event.Status {
	t.Helper()
	d, err := h.ledger.Find(t.Context(), c.Delivery)
	if err != nil {
		t.Fatal(err)
	}
	return d.Status
}

// wants fails where what stands is not all of it or nothing: a success with its effect, or
// a claim in force without.
func (h *house) wants(t testing.TB, c *event.Claim, status event.Status, effects int) {
	t.Helper()
	if got, n := h.status(t, c), h.effects(t, c); got != status || n != effects {
		t.Errorf("the row is %s with %d effects, want %s with %d", got, n, status, effects)
	}
}
