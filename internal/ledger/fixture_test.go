package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// books is a ledger over a fresh database, with what its tests need around it.
type books struct {
	*ledger.Ledger
	pool   *pgxpool.Pool
	worker event.WorkerID
}

func open(t testing.TB) *books {
	t.Helper()
	pool := pgtest.New(t)
	l := ledger.New(pool)
	worker, err := l.Enroll(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	return &books{l, pool, worker}
}

// target declares a receiver in the barest way and gives the number of its address.
func (b *books) target(t testing.TB, key string) event.TargetID {
	t.Helper()
	var id int32
	err := b.pool.QueryRow(t.Context(), `
		WITH r AS (INSERT INTO eventsvc.receivers (key, lane_id, declaration, revision) VALUES ($1, 1, '{}', 1) RETURNING id)
		INSERT INTO eventsvc.targets (receiver_id, url, revision) SELECT id, 'http://192.0.2.1/', 1 FROM r RETURNING id`, key).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return event.TargetID(id)
}

// owe writes n events, each owed to the target once.
func (b *books) owe(t testing.TB, target event.TargetID, n int, terms ...func(*ledger.Debt)) []ledger.Debt {
	t.Helper()
	var batch pgx.Batch
	debts := make([]ledger.Debt, n)
	for i := range debts {
		debts[i] = ledger.Debt{ID: event.NewID(time.Now()), EventID: event.NewID(time.Now()), TargetID: target, MaxAttempts: 3}
		for _, term := range terms {
			term(&debts[i])
		}
		batch.Queue(`INSERT INTO eventsvc.events (id, type, producer, idempotency_key, data) VALUES ($1, 'a.b', 0, $2, '{}')`,
			[16]byte(debts[i].EventID), debts[i].EventID.Text(event.EventPrefix))
	}
	ledger.Owe(&batch, debts)
	if err := b.pool.SendBatch(context.Background(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
	return debts
}

func (b *books) claim(t testing.TB, worker event.WorkerID, target event.TargetID, n int) []event.Claim {
	t.Helper()
	claimed, err := b.Claim(t.Context(), worker, 10, []ledger.Quota{{Target: target, N: n, Lease: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	claims := make([]event.Claim, len(claimed.Claims))
	for i, c := range claimed.Claims {
		claims[i] = *c
	}
	return claims
}

// entry is a claim with what became of it.
func entry(c event.Claim, s event.Settlement) ledger.Entry {
	return ledger.Entry{Fence: c.Fence, Settlement: s, Attempt: event.Attempt{
		Number: c.Attempt(), StartedAt: time.Now(), Outcome: s.Outcome, Class: s.Class, Error: s.Error,
	}}
}

func success(c event.Claim) ledger.Entry {
	return entry(c, event.Settlement{Status: event.Succeeded, Spent: 1, Outcome: event.OutcomeSucceeded})
}

func failure(c event.Claim, wait time.Duration) ledger.Entry {
	return entry(c, event.Settlement{Status: event.Failed, Spent: 1, Wait: wait, Outcome: event.OutcomeFailed, Class: event.ClassHTTP5xx, Error: "answered 500"})
}

func (b *books) record(t testing.TB, worker event.WorkerID, entries ...ledger.Entry) []bool {
	t.Helper()
	recorded, _, err := b.Record(t.Context(), worker, entries)
	if err != nil {
		t.Fatal(err)
	}
	return recorded
}

func (b *books) find(t testing.TB, id event.ID) ledger.Delivery {
	t.Helper()
	d, err := b.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (b *books) exec(t testing.TB, sql string, args ...any) int64 {
	t.Helper()
	tag, err := b.pool.Exec(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	return tag.RowsAffected()
}

func (b *books) attempts(t testing.TB, d ledger.Debt) []event.Attempt {
	t.Helper()
	trail, err := b.Attempts(t.Context(), d.EventID, d.ID)
	if err != nil {
		t.Fatal(err)
	}
	return trail
}
