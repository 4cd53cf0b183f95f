package ledger_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// settleAll settles n due deliveries of a watched target in one batch.
func (b *books) settleAll(t testing.TB, target event.TargetID, n int, as func(event.Claim) ledger.Entry) []ledger.Health {
	t.Helper()
	b.owe(t, target, n)
	var entries []ledger.Entry
	for _, c := range b.claim(t, b.worker, target, n) {
		e := as(c)
		e.Watched = target
		entries = append(entries, e)
	}
	recorded, turns, err := b.Record(t.Context(), b.worker, entries)
	if err != nil || len(recorded) != n {
		t.Fatalf("%v, %v", recorded, err)
	}
	return turns
}

// T121: the statement that ends deliveries counts them, and says once that an incident
// began and that it is over.
func TestHowATargetFaresIsCountedWhereItsDeliveriesEnd(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	first := b.settleAll(t, target, 2, died)
	if len(first) != 1 || first[0] != (ledger.Health{Target: target, Dead: 2, Died: 2, Incident: 1}) || !first[0].Began() {
		t.Errorf("two died: %+v", first)
	}
	if more := b.settleAll(t, target, 1, died); len(more) != 1 || more[0].Dead != 3 || more[0].Began() {
		t.Errorf("one more: %+v", more)
	}
	if well := b.settleAll(t, target, 2, success); len(well) != 1 || well[0] != (ledger.Health{Target: target, Incident: 1}) {
		t.Errorf("recovered: %+v", well)
	}
	if still := b.settleAll(t, target, 1, success); len(still) != 0 {
		t.Errorf("well still: %+v", still)
	}
	if again := b.settleAll(t, target, 1, died); len(again) != 1 || again[0].Incident != 2 || !again[0].Began() {
		t.Errorf("a second incident: %+v", again)
	}
	if dead, err := b.DeadInARow(t.Context(), []event.TargetID{target}); err != nil || dead[target] != 1 {
		t.Errorf("got %v, %v", dead, err)
	}
	if err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error { return ledger.Heal(t.Context(), tx, target) }); err != nil {
		t.Fatal(err)
	}
	if healed := b.settleAll(t, target, 1, died); len(healed) != 1 || healed[0].Dead != 1 || healed[0].Incident != 3 {
		t.Errorf("after it was switched on again: %+v", healed)
	}
	other := b.target(t, "plain")
	b.kill(t, other, 2)
	if dead, err := b.DeadInARow(t.Context(), []event.TargetID{other}); err != nil || len(dead) != 0 {
		t.Errorf("one that is not watched: %v, %v", dead, err)
	}
}

// T121: two workers at once count both deaths, and one of them is first.
func TestDeathsAtOnceAreAllCountedAndOneIncidentBegins(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	const workers = 8
	b.owe(t, target, workers)
	claims := b.claim(t, b.worker, target, workers)
	began := make(chan bool, workers)
	var all sync.WaitGroup
	for _, c := range claims {
		all.Go(func() {
			e := died(c)
			e.Watched = target
			_, turns, err := b.Record(t.Context(), b.worker, []ledger.Entry{e})
			if err != nil || len(turns) != 1 {
				t.Errorf("%+v, %v", turns, err)
				return
			}
			began <- turns[0].Began()
		})
	}
	all.Wait()
	close(began)
	n := 0
	for first := range began {
		if first {
			n++
		}
	}
	if dead, _ := b.DeadInARow(t.Context(), []event.TargetID{target}); n != 1 || dead[target] != workers {
		t.Errorf("%d incidents began, %d deaths were counted", n, dead[target])
	}
}
