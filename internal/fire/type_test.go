package fire_test

import (
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/registry"
)

func (o *office) declareType(t testing.TB, name string, d registry.TypeDeclaration) {
	t.Helper()
	if _, err := o.registry.DeclareType(t.Context(), name, d, 0); err != nil {
		t.Fatal(err)
	}
}

const strictOrder = `{"type":"object","required":["order"]}`

// A type that was declared in another process a moment ago holds at once.
func TestDataIsHeldToItsTypeInEveryProcess(t *testing.T) {
	o := open(t)
	other := o.desk(t)
	mustFire(t, other, draft("before", `1`))
	o.declareType(t, "order.placed", registry.TypeDeclaration{Schema: []byte(strictOrder)})
	var flaws event.Flaws
	if _, err := other.Fire(t.Context(), draft("k", `1`)); !errors.As(err, &flaws) || flaws[0].Pointer != "/data" {
		t.Errorf("got %v", err)
	}
	if _, err := other.Fire(t.Context(), draft("k", `1`)); !errors.As(err, &flaws) {
		t.Errorf("again: %v", err)
	}
	if r := mustFire(t, other, draft("k", `{"order":1}`)); r.Replayed {
		t.Error("a refused fire left its key behind (T133)")
	}
	if r := mustFire(t, other, draft("before", `1`)); !r.Replayed {
		t.Error("what was fired before the type was declared so is no longer the answer to the same again")
	}
	if err := o.registry.RemoveType(t.Context(), "order.placed", 0); err != nil {
		t.Fatal(err)
	}
	if r := mustFire(t, other, draft("free", `2`)); r.Replayed {
		t.Error("not a new event")
	}
	if n := o.count(t, `SELECT count(*) FROM eventsvc.events`); n != 3 {
		t.Errorf("%d events", n)
	}
}

// One that breaks its schema fails nobody else's fire.
func TestAGroupOutlivesOneThatBreaksItsSchema(t *testing.T) {
	o := open(t)
	mustFire(t, o.Desk, draft("first", `1`))
	var all sync.WaitGroup
	o.declareType(t, "order.placed", registry.TypeDeclaration{Schema: []byte(strictOrder)})
	refused := make(chan bool, 40)
	for i := range 40 {
		all.Go(func() {
			data := `{"order":1}`
			if i%4 == 0 {
				data = `7`
			}
			_, err := o.Fire(t.Context(), draft(string(rune('A'+i)), data))
			refused <- err != nil
		})
	}
	all.Wait()
	close(refused)
	n := 0
	for r := range refused {
		if r {
			n++
		}
	}
	if n != 10 || o.count(t, `SELECT count(*) FROM eventsvc.events`) != 31 {
		t.Errorf("%d refused", n)
	}
}

// The registry is read again before a type is said to be missing.
func TestUndeclaredTypesAreRefusedWhereTypesMustBeDeclared(t *testing.T) {
	o := open(t)
	log := slog.New(slog.DiscardHandler)
	strict := fire.NewDesk(fire.Options{Pool: o.pool, Book: o.registry.NewBook(log), Log: log, Strict: true})
	go strict.Run(t.Context())
	if _, err := strict.Fire(t.Context(), draft("k", `1`)); !errors.Is(err, fire.ErrUnknownType) {
		t.Errorf("got %v", err)
	}
	o.declareType(t, "order.placed", registry.TypeDeclaration{})
	if r := mustFire(t, strict, draft("k", `1`)); r.Replayed {
		t.Error("a refused fire left its key behind")
	}
	if err := o.registry.RemoveType(t.Context(), "order.placed", 0); err != nil {
		t.Fatal(err)
	}
	if r := mustFire(t, strict, draft("k", `1`)); !r.Replayed {
		t.Error("not the same answer")
	}
	if _, err := strict.Fire(t.Context(), draft("k2", `1`)); !errors.Is(err, fire.ErrUnknownType) {
		t.Errorf("after it was deleted: %v", err)
	}
}

// T76: copied when fired, whatever is declared since.
func TestARetentionIsCopiedOntoTheEvent(t *testing.T) {
	o := open(t)
	kept := func(key string) (seconds int, when string) {
		t.Helper()
		r := mustFire(t, o.Desk, draft(key, `1`))
		if err := o.pool.QueryRow(t.Context(), `SELECT coalesce(extract(epoch FROM keep_until - recorded_at), 0)::int, coalesce(forget_when, '') FROM eventsvc.events WHERE id = $1`,
			[16]byte(r.Event.ID)).Scan(&seconds, &when); err != nil {
			t.Fatal(err)
		}
		return seconds, when
	}
	for i, c := range []struct {
		retention string
		seconds   int
		when      string
	}{{"", 0, ""}, {"90s", 90, ""}, {"succeeded", 0, "succeeded"}, {"settled", 0, "settled"}, {"2147483647s", 2147483647, ""}} {
		o.declareType(t, "order.placed", registry.TypeDeclaration{Retention: c.retention})
		if seconds, when := kept(string(rune('a' + i))); seconds != c.seconds || when != c.when {
			t.Errorf("%s: got %d, %q", c.retention, seconds, when)
		}
	}
}

// G19, T81: the chain of an event that names its cause is its cause's.
func TestAnEventJoinsTheChainOfItsCause(t *testing.T) {
	o := open(t)
	root := mustFire(t, o.Desk, draft("root", `1`)).Event
	fire := func(key, cause, chain string) event.Event {
		d := draft(key, `1`)
		d.CausationID, d.CorrelationID = cause, chain
		return mustFire(t, o.Desk, d).Event
	}
	child := fire("child", root.ID.Text(event.EventPrefix), "")
	if child.CorrelationID != root.ID.Text(event.EventPrefix) {
		t.Errorf("child: chain %q", child.CorrelationID)
	}
	if g := fire("grandchild", child.ID.Text(event.EventPrefix), ""); g.CorrelationID != child.CorrelationID {
		t.Errorf("grandchild: chain %q", g.CorrelationID)
	}
	if own := fire("own", root.ID.Text(event.EventPrefix), "mine"); own.CorrelationID != "mine" {
		t.Errorf("one that names its chain: %q", own.CorrelationID)
	}
	gone := "evt_01jxkg2c8zf3v9e4m6r7t8w9ya"
	if s := fire("stranger", gone, ""); s.CorrelationID != "" || s.CausationID != gone {
		t.Errorf("an unknown cause: %+v", s.Facts)
	}
	d := draft("child", `1`)
	d.CausationID, d.Body = root.ID.Text(event.EventPrefix), [32]byte{}
	if r := mustFire(t, o.Desk, d); !r.Replayed || r.Event.CorrelationID != child.CorrelationID {
		t.Errorf("the same again: %+v", r)
	}
}
