package fire_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/registry"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// office is a desk at work over a fresh database, with a registry to match against.
type office struct {
	*fire.Desk
	pool     *pgxpool.Pool
	registry *registry.Registry
	ledger   *ledger.Ledger
	woken    chan []event.TargetID
}

func open(t testing.TB) *office {
	t.Helper()
	pool := pgtest.New(t)
	sealer, err := registry.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(pool, registry.Options{Sealer: sealer, CheckURL: func(string) error { return nil },
		Defaults: registry.Defaults{MaxAttempts: 20, Curve: event.Curve{Base: time.Second, Cap: time.Hour}}})
	o := &office{pool: pool, registry: r, ledger: ledger.New(pool), woken: make(chan []event.TargetID, 1000)}
	o.Desk = o.desk(t)
	return o
}

// desk is one more desk over the same database, with a book of its own: another
// process.
func (o *office) desk(t testing.TB) *fire.Desk {
	log := slog.New(slog.DiscardHandler)
	d := fire.NewDesk(fire.Options{Pool: o.pool, Book: o.registry.NewBook(log), Log: log, Committed: func(ids []event.TargetID) { o.woken <- ids }})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { d.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	return d
}

func (o *office) declare(t testing.TB, key string, d registry.Declaration) {
	t.Helper()
	if d.Events == nil {
		d.Events = []event.Pattern{"*"}
	}
	d.URL = "http://192.0.2.1/"
	if _, err := o.registry.Declare(t.Context(), key, d, 0); err != nil {
		t.Fatal(err)
	}
}

func draft(key, data string) *fire.Draft {
	return &fire.Draft{Key: key, Body: sha256.Sum256([]byte(data)), Type: "order.placed", Data: []byte(data)}
}

func (o *office) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := o.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func mustFire(t testing.TB, d *fire.Desk, draft *fire.Draft) fire.Receipt {
	t.Helper()
	r, err := d.Fire(t.Context(), draft)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// P1.
func TestAFireWritesKeyEventAndEveryDebtTogether(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	o.declare(t, "b", registry.Declaration{Events: []event.Pattern{"order.*"}})
	o.declare(t, "c", registry.Declaration{Events: []event.Pattern{"invoice.*"}})
	odd := "{ \"b\":1,\"a\": 123456789012345678901234567890.50, \"b\":2, \"u\":\"\\u0000\u2028<\" }"
	r := mustFire(t, o.Desk, draft("k", odd))
	if r.Replayed || len(r.Owed) != 2 || r.Owed[0].Receiver != "a" || r.Owed[1].Receiver != "b" || r.Event.RecordedAt.IsZero() {
		t.Errorf("got %+v", r)
	}
	stored, err := o.Find(t.Context(), r.Event.ID)
	if err != nil || string(stored.Data) != odd {
		t.Errorf("stored %q, %v; want it byte for byte", stored.Data, err)
	}
	owed, err := o.ledger.OfEvent(t.Context(), r.Event.ID)
	if err != nil || len(owed) != 2 || owed[0].MaxAttempts != 20 {
		t.Errorf("owed %+v, %v", owed, err)
	}
	if woken := <-o.woken; len(woken) != 2 {
		t.Errorf("woke %v, want both targets", woken)
	}
}

func TestNobodyListeningIsAFireToo(t *testing.T) {
	o := open(t)
	if r := mustFire(t, o.Desk, draft("k", "1")); len(r.Owed) != 0 {
		t.Errorf("got %+v", r)
	}
}

// P2.
func TestARepeatedFireGetsTheFirstAnswer(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	first := mustFire(t, o.Desk, draft("k", `{"a":1,"b":2}`))
	o.declare(t, "later", registry.Declaration{})
	for name, again := range map[string]*fire.Draft{"the same bytes": draft("k", `{"a":1,"b":2}`), "another order of members": draft("k", `{ "b":2, "a":1 }`)} {
		r := mustFire(t, o.Desk, again)
		if !r.Replayed || r.Event.ID != first.Event.ID || !r.Event.RecordedAt.Equal(first.Event.RecordedAt) || fmt.Sprint(r.Owed) != fmt.Sprint(first.Owed) {
			t.Errorf("%s: got %+v, want %+v replayed", name, r, first)
		}
	}
	if n := o.count(t, `SELECT count(*) FROM eventsvc.owed`); n != 1 {
		t.Errorf("%d deliveries are owed, want 1", n)
	}
}

func TestAKeyNamesOneEvent(t *testing.T) {
	o := open(t)
	mustFire(t, o.Desk, draft("k", `{"a":1}`))
	for name, other := range map[string]func(*fire.Draft){
		"data":     func(d *fire.Draft) { d.Data = []byte(`{"a":2}`) },
		"type":     func(d *fire.Draft) { d.Type = "order.cancelled" },
		"tenant":   func(d *fire.Draft) { d.Tenant = "t" },
		"metadata": func(d *fire.Draft) { d.Metadata = map[string]string{"a": "b"} },
		"number":   func(d *fire.Draft) { d.Data = []byte(`{"a":1.0}`) },
	} {
		d := draft("k", `{"a":1}`)
		other(d)
		d.Body = sha256.Sum256([]byte(name))
		if _, err := o.Fire(t.Context(), d); !errors.Is(err, fire.ErrKeyReused) {
			t.Errorf("another %s: got %v, want ErrKeyReused", name, err)
		}
	}
	mine := draft("k", `{"a":2}`)
	mine.Producer = 7
	if r := mustFire(t, o.Desk, mine); r.Replayed {
		t.Error("another producer's key was taken for this one's")
	}
}

// P2, under load and from two processes.
func TestConcurrentFiresOfOneKeyAreOneEvent(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	desks := []*fire.Desk{o.Desk, o.desk(t)}
	var all sync.WaitGroup
	receipts := make([]fire.Receipt, 200)
	for i := range receipts {
		all.Go(func() {
			r, err := desks[i%2].Fire(t.Context(), draft(fmt.Sprint("k", i%10), "{}"))
			if err != nil {
				t.Error(err)
			}
			receipts[i] = r
		})
	}
	all.Wait()
	firsts := 0
	for i, r := range receipts {
		if r.Event.ID != receipts[i%10].Event.ID {
			t.Errorf("one key gave %v and %v", r.Event.ID, receipts[i%10].Event.ID)
		}
		if !r.Replayed {
			firsts++
		}
	}
	if firsts != 10 || o.count(t, `SELECT count(*) FROM eventsvc.events`) != 10 || o.count(t, `SELECT count(*) FROM eventsvc.owed`) != 10 {
		t.Errorf("%d fires were the first of their key, want 10", firsts)
	}
}

func TestAHeldKeyHoldsNobodyElseUp(t *testing.T) {
	o := open(t)
	tx, err := o.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `INSERT INTO eventsvc.fire_keys VALUES (0, 'held', gen_random_uuid(), sha256('x'), '[]')`)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if r, err := o.Fire(t.Context(), draft(fmt.Sprint("free", i), "{}")); err != nil || r.Replayed {
				t.Errorf("a free key: %+v, %v", r, err)
			}
		})
	}
	all.Go(func() {
		if _, err := o.Fire(t.Context(), draft("held", "{}")); !errors.Is(err, fire.ErrKeyInUse) {
			t.Errorf("the held key: got %v, want ErrKeyInUse", err)
		}
	})
	all.Wait()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := mustFire(t, o.Desk, draft("held", "{}")); r.Replayed {
		t.Error("a key whose holder rolled back is still spent")
	}
}

// Two batches that spent the same keys in opposite orders would deadlock.
func TestDesksNeverDeadlockOverKeys(t *testing.T) {
	o := open(t)
	desks := []*fire.Desk{o.Desk, o.desk(t), o.desk(t)}
	var all sync.WaitGroup
	for i := range 600 {
		all.Go(func() {
			if _, err := desks[i%3].Fire(t.Context(), draft(fmt.Sprint("k", (i*7)%50), "{}")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := o.count(t, `SELECT count(*) FROM eventsvc.events`); n != 50 {
		t.Errorf("%d events, want 50", n)
	}
}

func TestOneCallersBadDataFailsNobodyElse(t *testing.T) {
	o := open(t)
	// Held up by one long commit, the others form a group.
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			d := draft(fmt.Sprint("k", i), "{}")
			if i == 25 {
				d.Tenant = "\xff" // what Check would have refused
			}
			_, err := o.Fire(t.Context(), d)
			if (err != nil) != (i == 25) {
				t.Errorf("fire %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if n := o.count(t, `SELECT count(*) FROM eventsvc.events`); n != 49 {
		t.Errorf("%d events, want 49", n)
	}
	if n := o.count(t, `SELECT count(*) FROM eventsvc.fire_keys`); n != 49 {
		t.Errorf("%d keys, want 49: a refused fire leaves no key behind", n)
	}
}

// A declaration is in force in every process from the first fire after its answer.
func TestFiresMatchTheRegistryAsItIs(t *testing.T) {
	o := open(t)
	other := o.desk(t)
	for i := range 20 {
		o.declare(t, fmt.Sprint("r", i), registry.Declaration{})
		if r := mustFire(t, other, draft(fmt.Sprint("k", i), "{}")); len(r.Owed) != i+1 {
			t.Fatalf("owed to %d receivers, want %d", len(r.Owed), i+1)
		}
	}
}

func TestTenantsFailClosed(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{Tenant: "a"})
	o.declare(t, "all", registry.Declaration{})
	for tenant, want := range map[string]int{"a": 2, "b": 1, "": 1} {
		d := draft("k"+tenant, "{}")
		d.Tenant = tenant
		if r := mustFire(t, o.Desk, d); len(r.Owed) != want {
			t.Errorf("tenant %q is owed to %d receivers, want %d", tenant, len(r.Owed), want)
		}
	}
}

func TestASuppressedEventIsStoredAndOwedToNobody(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	d := draft("k", "{}")
	d.Suppress = &event.Suppression{Reason: "import"}
	r := mustFire(t, o.Desk, d)
	stored, err := o.Find(t.Context(), r.Event.ID)
	if err != nil || len(r.Owed) != 0 || stored.Suppress == nil || stored.Suppress.Reason != "import" {
		t.Errorf("got %+v, stored %+v, %v", r, stored, err)
	}
}

func TestFactsAreKeptAsTold(t *testing.T) {
	o := open(t)
	d := draft("k", "{}")
	d.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	d.Facts = event.Facts{Tenant: "t", Subject: "s", Source: "shop", OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC),
		Actor: &event.Actor{Key: "user:1", Label: "U"}, CorrelationID: "c", CausationID: "d", Metadata: map[string]string{"a": "b"}}
	r := mustFire(t, o.Desk, d)
	got, err := o.Find(t.Context(), r.Event.ID)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got.Facts.Actor, got.Metadata, got.Tenant, got.Subject, got.Source, got.CorrelationID, got.CausationID, got.TraceParent) !=
		fmt.Sprint(d.Facts.Actor, d.Metadata, "t", "s", "shop", "c", "d", d.TraceParent) || !got.OccurredAt.Equal(d.OccurredAt) {
		t.Errorf("got %+v", got)
	}
	if again := mustFire(t, o.Desk, d); !again.Replayed {
		t.Error("the same facts are not the same event")
	}
}

func TestScheduledDebtsAreDueAfterRecordedAt(t *testing.T) {
	o := open(t)
	due := event.Duration(48 * time.Hour)
	o.declare(t, "a", registry.Declaration{Due: &due})
	r := mustFire(t, o.Desk, draft("k", "{}"))
	owed, err := o.ledger.OfEvent(t.Context(), r.Event.ID)
	if err != nil || len(owed) != 1 {
		t.Fatal(owed, err)
	}
	if want := r.Event.RecordedAt.Add(48 * time.Hour); !owed[0].DueAt.Equal(want) || !owed[0].AvailableAt.Equal(want) || r.Owed[0].Due != 48*time.Hour {
		t.Errorf("due at %v, available at %v, want %v", owed[0].DueAt, owed[0].AvailableAt, want)
	}
}

func TestAStoppedDeskRefuses(t *testing.T) {
	o := open(t)
	d := fire.NewDesk(fire.Options{Pool: o.pool, Book: o.registry.NewBook(slog.New(slog.DiscardHandler)), Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	d.Run(ctx)
	if _, err := d.Fire(t.Context(), draft("k", "{}")); !errors.Is(err, fire.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
}

func TestDraftsAreChecked(t *testing.T) {
	long := strings.Repeat("x", 256)
	for name, c := range map[string]struct {
		change  func(*fire.Draft)
		pointer string
	}{
		"no type":       {func(d *fire.Draft) { d.Type = "" }, "/type"},
		"reserved type": {func(d *fire.Draft) { d.Type = "eventsvc.target.failing" }, "/type"},
		"no data":       {func(d *fire.Draft) { d.Data = nil }, "/data"},
		"too deep":      {func(d *fire.Draft) { d.Data = []byte(strings.Repeat("[", 257) + strings.Repeat("]", 257)) }, "/data"},
		"long tenant":   {func(d *fire.Draft) { d.Tenant = long }, "/tenant"},
		"control":       {func(d *fire.Draft) { d.Subject = "a\nb" }, "/subject"},
		"actor":         {func(d *fire.Draft) { d.Actor = &event.Actor{} }, "/actor/key"},
		"suppression":   {func(d *fire.Draft) { d.Suppress = &event.Suppression{} }, "/suppress/reason"},
		"metadata":      {func(d *fire.Draft) { d.Metadata = map[string]string{"a/b": long} }, "/metadata/a~1b"},
	} {
		d := draft("k", "{}")
		c.change(d)
		if flaws := d.Check(); len(flaws) != 1 || flaws[0].Pointer != c.pointer {
			t.Errorf("%s: got %v, want one flaw at %s", name, flaws, c.pointer)
		}
	}
	d := draft("k", strings.Repeat("[", 256)+`"]]]\""`+strings.Repeat("]", 256))
	d.Tenant = long[:255]
	if flaws := d.Check(); flaws != nil {
		t.Errorf("at the bounds: got %v", flaws)
	}
}

func TestIdempotencyKeysAreChecked(t *testing.T) {
	for key, good := range map[string]bool{"a": true, strings.Repeat("k", 255): true, "": false, strings.Repeat("k", 256): false, "a b": false, "é": false, "a\x7f": false} {
		if err := fire.CheckKey(key); (err == nil) != good {
			t.Errorf("%q: got %v, want good: %v", key, err, good)
		}
	}
}
