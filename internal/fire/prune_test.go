package fire_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/registry"
)

func most(n int) *int { return &n }

func duration(d time.Duration) *event.Duration { e := event.Duration(d); return &e }

func none(context.Context, pgx.Tx, []event.TargetID) error { return nil }

const month = 30 * 24 * time.Hour

func (o *office) prune(t testing.TB, p fire.Prune) fire.Pruned {
	t.Helper()
	if p.Keep == 0 {
		p.Keep = month
	}
	if p.Rows == 0 {
		p.Rows = 5000
	}
	done, err := o.Prune(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// old is an event of long ago, written by hand: an id holds the time it was made for.
func (o *office) old(t testing.TB, age time.Duration, columns string, values ...any) event.ID {
	t.Helper()
	at := time.Now().Add(-age)
	id := event.NewID(time.Now())
	for i := range 6 {
		id[i] = byte(at.UnixMilli() >> (8 * (5 - i)))
	}
	if _, err := o.pool.Exec(t.Context(), `SELECT eventsvc.make_partitions($1, $2)`, at.Add(-time.Hour), at.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if columns != "" {
		columns = ", " + columns
	}
	marks := ""
	for i := range values {
		marks += fmt.Sprintf(", $%d", i+4)
	}
	args := append([]any{[16]byte(id), at, id.Text(event.EventPrefix)}, values...)
	if _, err := o.pool.Exec(t.Context(), `INSERT INTO eventsvc.events (id, recorded_at, type, producer, idempotency_key, data`+columns+`)
		VALUES ($1, $2, 'order.placed', 0, $3, '{}'`+marks+`)`, args...); err != nil {
		t.Fatal(err)
	}
	if _, err := o.pool.Exec(t.Context(), `INSERT INTO eventsvc.fire_keys (producer, key, event_id, body_sha256, owes) VALUES (0, $1, $2, decode(repeat('00', 32), 'hex'), '[]')`,
		id.Text(event.EventPrefix), [16]byte(id)); err != nil {
		t.Fatal(err)
	}
	return id
}

func (o *office) gone(t testing.TB, id event.ID) bool {
	t.Helper()
	_, err := o.Find(t.Context(), id)
	if err != nil && !errors.Is(err, fire.ErrNotFound) {
		t.Fatal(err)
	}
	return err != nil
}

// T78: whole events, with all that is kept of them, and their keys; and it says how many.
func TestAPruneDeletesWhatIsPastTheWindowWithAllThatIsKeptOfIt(t *testing.T) {
	o := open(t)
	o.declare(t, "k", registry.Declaration{})
	past, fresh := o.old(t, month+time.Hour, ""), o.old(t, month-time.Hour, "")
	o.replay(t, past, fire.To{})
	o.replay(t, fresh, fire.To{})
	o.end(t, succeeded)
	if got := o.prune(t, fire.Prune{DryRun: true}); got.Events != 1 || o.gone(t, past) {
		t.Errorf("a dry run: %+v", got)
	}
	if got := o.prune(t, fire.Prune{}); got.Events != 1 || !o.gone(t, past) || o.gone(t, fresh) {
		t.Errorf("got %+v", got)
	}
	for _, table := range []string{"settled", "attempts"} {
		if n := o.count(t, `SELECT count(*) FROM eventsvc.`+table); n != 1 {
			t.Errorf("%d rows left in %s", n, table)
		}
	}
	if n := o.count(t, `SELECT count(*) FROM eventsvc.fire_keys`); n != 1 {
		t.Errorf("%d keys left", n)
	}
	if n := o.count(t, `SELECT count(*) FROM eventsvc.last_success`); n != 1 {
		t.Errorf("%d last successes kept (T70)", n)
	}
	if got := o.prune(t, fire.Prune{}); got.Events != 0 {
		t.Errorf("again: %+v", got)
	}
}

// KEEP-03, T91: never what is owed, however old.
func TestAPruneNeverTouchesWhatIsOwed(t *testing.T) {
	o := open(t)
	o.declare(t, "k", registry.Declaration{})
	for _, c := range []struct{ columns, value string }{{"", ""}, {"forget_when", "succeeded"}, {"forget_when", "settled"}} {
		var id event.ID
		if c.columns == "" {
			id = o.old(t, 10*month, "")
		} else {
			id = o.old(t, 10*month, c.columns, c.value)
		}
		o.replay(t, id, fire.To{})
	}
	if got := o.prune(t, fire.Prune{}); got.Events != 0 {
		t.Errorf("got %+v", got)
	}
}

// T74, T75, T76: an event follows what was written with it.
func TestEventsAreKeptAsWasSaidWhenTheyWereFired(t *testing.T) {
	o := open(t)
	o.declare(t, "k", registry.Declaration{})
	hour := time.Hour
	type kept struct {
		id   event.ID
		gone bool
	}
	cases := map[string]kept{
		"own, over":               {o.old(t, 2*hour, "keep_until", time.Now().Add(-time.Minute)), true},
		"own, longer than all":    {o.old(t, 9*month, "keep_until", time.Now().Add(hour)), false},
		"settled, nobody wanted":  {o.old(t, hour, "forget_when", "settled"), true},
		"succeeded, none at all":  {o.old(t, hour, "forget_when", "succeeded"), true},
		"plain, nobody wanted it": {o.old(t, hour, ""), false},
	}
	for name, s := range map[string]event.Settlement{"succeeded": succeeded, "dead": dead} {
		for when, gone := range map[string]bool{"settled": true, "succeeded": name == "succeeded"} {
			id := o.old(t, hour, "forget_when", when)
			o.replay(t, id, fire.To{})
			o.end(t, s)
			cases[when+", all "+name] = kept{id, gone}
		}
	}
	waited := o.old(t, month+hour, "forget_when", "succeeded")
	o.replay(t, waited, fire.To{})
	o.end(t, dead)
	cases["succeeded, dead, past the window"] = kept{waited, true}
	o.prune(t, fire.Prune{})
	for name, c := range cases {
		if got := o.gone(t, c.id); got != c.gone {
			t.Errorf("%s: gone is %v", name, got)
		}
	}
}

// T73: a key outlives its event for a week, and names it still.
func TestAKeyIsKnownForAWeekWhateverBecameOfItsEvent(t *testing.T) {
	o := open(t)
	o.declare(t, "k", registry.Declaration{})
	r := mustFire(t, o.Desk, draft("key", "1"))
	o.end(t, succeeded)
	if _, err := o.pool.Exec(t.Context(), `UPDATE eventsvc.events SET forget_when = 'settled'`); err != nil {
		t.Fatal(err)
	}
	o.prune(t, fire.Prune{})
	if !o.gone(t, r.Event.ID) {
		t.Fatal("not pruned")
	}
	again := mustFire(t, o.Desk, draft("key", "1"))
	if !again.Replayed || again.Event.ID != r.Event.ID || !again.Event.RecordedAt.Equal(r.Event.RecordedAt) || len(again.Owed) != 1 || string(again.Event.Data) != "1" {
		t.Errorf("the same again: %+v", again)
	}
	if _, err := o.Fire(t.Context(), draft("key", "2")); !errors.Is(err, fire.ErrKeyReused) {
		t.Errorf("another body: %v", err)
	}
	if _, err := o.pool.Exec(t.Context(), `UPDATE eventsvc.fire_keys SET forget_at = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	if got := o.prune(t, fire.Prune{}); got.Keys != 1 {
		t.Errorf("after the week: %+v", got)
	}
	if fresh := mustFire(t, o.Desk, draft("key", "2")); fresh.Replayed {
		t.Error("a key that was forgotten names something still")
	}
}

// An event that is gone by somebody's hand leaves a key that still answers.
func TestAKeyWhoseEventVanishedStillAnswers(t *testing.T) {
	o := open(t)
	r := mustFire(t, o.Desk, draft("key", "1"))
	if _, err := o.pool.Exec(t.Context(), `DELETE FROM eventsvc.events`); err != nil {
		t.Fatal(err)
	}
	if again := mustFire(t, o.Desk, draft("key", "1")); !again.Replayed || again.Event.ID != r.Event.ID || again.Event.RecordedAt.IsZero() {
		t.Errorf("got %+v", again)
	}
}

// T67: an event with more rows than a transaction may delete goes bit by bit, last itself.
func TestAnEventOfAnySizeIsPrunedInSmallTransactions(t *testing.T) {
	o := open(t)
	id := o.old(t, 2*month, "")
	if _, err := o.pool.Exec(t.Context(), `INSERT INTO eventsvc.settled (event_id, target_id, id, status, attempts, max_attempts, sending, owed_since, due_at)
		SELECT $1, n, gen_random_uuid(), 'dead', 1, 1, 1, now(), '-infinity' FROM generate_series(1, 95) n`, [16]byte(id)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.pool.Exec(t.Context(), `INSERT INTO eventsvc.attempts (event_id, delivery_id, number, outcome, worker, started_at)
		SELECT event_id, id, 1, 'failed', 1, now() FROM eventsvc.settled`); err != nil {
		t.Fatal(err)
	}
	steps := 0
	if got := o.prune(t, fire.Prune{Rows: 10, Progress: func(int) { steps++ }}); got.Events != 1 || steps != 20 {
		t.Errorf("got %+v in %d transactions", got, steps)
	}
	if n := o.count(t, `SELECT (SELECT count(*) FROM eventsvc.settled) + (SELECT count(*) FROM eventsvc.attempts)`); n != 0 {
		t.Errorf("%d rows left", n)
	}
}

func TestAPruneIsBoundedByEventsAndByTime(t *testing.T) {
	o := open(t)
	for range 5 {
		o.old(t, 2*month, "")
	}
	for name, c := range map[string]struct {
		p      fire.Prune
		events int
		more   bool
	}{
		"limit 0":     {fire.Prune{Most: most(0)}, 0, false},
		"out of time": {fire.Prune{Until: time.Now().Add(-time.Second)}, 0, true},
	} {
		if got := o.prune(t, c.p); got.Events != c.events || got.More != c.more {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := o.prune(t, fire.Prune{Most: most(2)}); got.Events != 2 {
		t.Errorf("limit 2: %+v", got)
	}
	if got := o.prune(t, fire.Prune{}); got.Events != 3 {
		t.Errorf("the rest: %+v", got)
	}
}

// T66, KEEP-05: all at once, for many rounds: nothing that was reopened vanishes, and
// nobody waits for another in a circle.
func TestPrunesReplaysAndRequeuesAtOnceLoseNothing(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	o.declare(t, "b", registry.Declaration{})
	var ids []event.ID
	for range 20 {
		ids = append(ids, o.old(t, 2*month, ""))
	}
	for _, id := range ids {
		o.replay(t, id, fire.To{})
	}
	for range 12 {
		o.end(t, dead)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { o.prune(t, fire.Prune{Most: most(1), Rows: 7}) })
		}
		for _, id := range ids {
			all.Go(func() {
				if _, err := o.Replay(t.Context(), id, fire.To{Receivers: []string{"a"}}, false); err != nil && !errors.Is(err, fire.ErrNotFound) {
					t.Error(err)
				}
			})
		}
		all.Go(func() {
			if _, _, err := o.ledger.Requeue(t.Context(), ledger.Selection{Filter: ledger.Filter{Receiver: "b"}}); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		if n := o.count(t, `SELECT count(*) FROM eventsvc.owed o WHERE NOT EXISTS (SELECT 1 FROM eventsvc.events e WHERE e.id = o.event_id)`); n != 0 {
			t.Fatalf("%d deliveries are owed of events that are gone", n)
		}
	}
}

// An event that was fired in SQL and refused goes when its time is over, as nobody has
// replayed it; one that waits to be matched never does.
func TestAPruneTakesWhatWasRefusedAndNothingThatWaits(t *testing.T) {
	o := open(t)
	refused, waiting := o.old(t, 100*24*time.Hour, ""), o.old(t, 100*24*time.Hour, "")
	for id, why := range map[event.ID]*string{refused: new("no"), waiting: nil} {
		if _, err := o.pool.Exec(t.Context(), `INSERT INTO eventsvc.unmatched (event_id, refused) VALUES ($1, $2)`, [16]byte(id), why); err != nil {
			t.Fatal(err)
		}
	}
	o.prune(t, fire.Prune{})
	if n := o.count(t, `SELECT count(*) FROM eventsvc.events WHERE id = $1`, [16]byte(waiting)); n != 1 {
		t.Error("what waits was pruned")
	}
	if n := o.count(t, `SELECT (SELECT count(*) FROM eventsvc.events WHERE id = $1) + (SELECT count(*) FROM eventsvc.unmatched WHERE event_id = $1)`, [16]byte(refused)); n != 0 {
		t.Errorf("%d rows of what was refused are left", n)
	}
}
