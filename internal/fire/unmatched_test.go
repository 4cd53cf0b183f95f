package fire_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// wide declares a receiver with so many targets.
func (o *office) wide(t testing.TB, n int) {
	t.Helper()
	if _, err := o.registry.Declare(t.Context(), "fan", registry.Declaration{Events: []event.Pattern{"*"}, FanOut: true}, 0); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < n; at += 500 {
		var targets []registry.NamedTarget
		for i := at; i < min(n, at+500); i++ {
			targets = append(targets, registry.NamedTarget{Name: fmt.Sprintf("t%d", i), TargetDeclaration: registry.TargetDeclaration{URL: "http://192.0.2.1/"}})
		}
		if _, err := o.registry.DeclareTargets(t.Context(), "fan", targets, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// sql fires so many events in SQL.
func (o *office) sql(t testing.TB, n int) {
	t.Helper()
	if _, err := o.pool.Exec(t.Context(), `SELECT eventsvc.fire('order.placed', n::text) FROM generate_series(1, $1) n`, n); err != nil {
		t.Fatal(err)
	}
}

// What is to be matched is matched in portions: a transaction that takes all of it would be
// cut off for its length each time, and nothing ever be owed.
func TestManyWideEventsFiredInSQLAreMatched(t *testing.T) {
	o := open(t)
	o.wide(t, 2000)
	o.sql(t, 20)
	err := o.MatchAll(t.Context())
	if n := o.count(t, `SELECT count(*) FROM eventsvc.owed`); n != 40_000 || err != nil {
		t.Errorf("%d are owed, %v", n, err)
	}
	if n := o.count(t, `SELECT max(n) FROM (SELECT count(*) n FROM eventsvc.owed GROUP BY xmin) x`); n > 5000 {
		t.Errorf("%d were written in one transaction, want 5000 at most", n)
	}
}

func TestAReplayToSomeTakesAFreshEventFromNobody(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	o.declare(t, "b", registry.Declaration{})
	o.sql(t, 1)
	var id event.ID
	if err := o.pool.QueryRow(t.Context(), `SELECT id FROM eventsvc.events`).Scan((*[16]byte)(&id)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Replay(t.Context(), id, fire.To{Receivers: []string{"a"}}, false); err != nil {
		t.Fatal(err)
	}
	if err := o.MatchAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := o.count(t, `SELECT count(*) FROM eventsvc.owed`); n != 2 {
		t.Errorf("%d are owed, want one to each receiver", n)
	}
}

// A replay waits for who matches the event without holding what that one still needs.
func TestMatchingAndReplayingLockInOneOrder(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	o.sql(t, 1)
	matching, err := o.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer matching.Rollback(t.Context())
	var id event.ID
	if err := matching.QueryRow(t.Context(), `SELECT event_id FROM eventsvc.unmatched FOR UPDATE`).Scan((*[16]byte)(&id)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := o.Replay(t.Context(), id, fire.To{}, false)
		done <- err
	}()
	for o.count(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) == 0 {
		runtime.Gosched()
	}
	if _, err := matching.Exec(t.Context(), `SELECT 1 FROM eventsvc.events WHERE id = $1 FOR NO KEY UPDATE NOWAIT`, [16]byte(id)); err != nil {
		t.Errorf("the replay waits and holds the event: %v", err)
	}
	if err := matching.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// When it is due counts from when it was recorded, however late it was matched.
func TestADueTimeCountsFromTheEventAndNotFromItsMatching(t *testing.T) {
	o := open(t)
	due := event.Duration(time.Hour)
	o.declare(t, "a", registry.Declaration{Due: &due})
	o.sql(t, 1)
	if _, err := o.pool.Exec(t.Context(), `UPDATE eventsvc.events SET recorded_at = now() - interval '20 minutes'`); err != nil {
		t.Fatal(err)
	}
	if err := o.MatchAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := o.count(t, `SELECT count(*) FROM eventsvc.owed WHERE due_at - now() BETWEEN interval '39 minutes' AND interval '40 minutes'`); n != 1 {
		t.Error("it is due an hour after it was matched")
	}
}
