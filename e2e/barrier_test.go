package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/eventsvc/eventsvc/examples/barrier"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// However far a caller comes before it dies, and whatever is asked meanwhile: its order is
// placed if and only if the event exists.
func TestTheBarrierBindsEventsToTheCallersOwnChange(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	service, db := pgtest.Open(t, url), pgtest.Open(t, pgtest.Empty(t))
	schema, err := os.ReadFile("../examples/barrier/barrier.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{string(schema), `CREATE TABLE orders (id integer PRIMARY KEY)`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	shop := &barrier.Shop{DB: db, Events: p.base, Secret: checkSecret}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /check", shop.Check)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	shop.CheckURL = server.URL + "/check"

	prepare := func(order int) string {
		t.Helper()
		id, err := shop.Prepare(t.Context(), order)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	ask := func() {
		t.Helper()
		if _, err := service.Exec(t.Context(), `UPDATE eventsvc.transactions SET check_at = now() WHERE check_at > now()`); err != nil {
			t.Fatal(err)
		}
	}
	decided := func(id, state string) {
		t.Helper()
		eventually(t, func() bool {
			ask()
			return p.call(t, "GET", "/v1/transactions/"+id, "").at("transaction.state") == state
		}, func() string { return p.call(t, "GET", "/v1/transactions/"+id, "").text })
	}

	// All goes well; the same order again is the same transaction.
	well := prepare(1)
	if err := shop.Place(t.Context(), well, 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := shop.Commit(t.Context(), well); err != nil {
			t.Error(err)
		}
	}
	if again := prepare(1); again != well {
		t.Errorf("prepared %s and %s", well, again)
	}
	// It dies after its own commit.
	unsaid := prepare(2)
	if err := shop.Place(t.Context(), unsaid, 2); err != nil {
		t.Fatal(err)
	}
	decided(unsaid, "committed")
	// It dies before, and what is left of it comes to life after the answer.
	late := prepare(3)
	decided(late, "rolled_back")
	if err := shop.Place(t.Context(), late, 3); err == nil {
		t.Error("an order was placed whose events were dropped")
	}
	if err := shop.Commit(t.Context(), late); err == nil {
		t.Error("committed after a rollback")
	}
	// It is asked in the middle.
	slow := prepare(4)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`INSERT INTO orders VALUES (4)`, `INSERT INTO eventsvc_barrier (transaction_id, outcome) VALUES ('` + slow + `', 'committed')`} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool {
		ask()
		return p.call(t, "GET", "/v1/transactions/"+slow, "").at("transaction.check.last") == "it was answered 425, which decides nothing"
	}, func() string { return p.call(t, "GET", "/v1/transactions/"+slow, "").text })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	decided(slow, "committed")

	var orders int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM orders`).Scan(&orders); err != nil {
		t.Fatal(err)
	}
	if events := p.call(t, "GET", "/v1/events?type=order.placed", "").list("data"); events != 3 || orders != 3 {
		t.Errorf("%d orders and %d events, want 3 of each", orders, events)
	}
}
