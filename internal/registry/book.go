package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Book is this process's memory of the registry: what fires are matched against and
// what attempts are made with. It is as new as the revision it was last told of, see
// [Book.Reach].
type Book struct {
	registry *Registry
	log      *slog.Logger
	page     atomic.Pointer[page]
	doubted  atomic.Int64 // when an older revision last made the book ask, in UnixNano
	reading  sync.Mutex
	failing  failingFilters
}

// page is one state of the registry. It is never changed, only replaced, but for the
// cache of matches.
type page struct {
	revision int64
	targets  map[event.TargetID]*entry
	kinds    map[string]*Kind
	matches  sync.Map // matchKey -> *candidates
	cached   atomic.Int32
}

// entry is a target with its filters and the ends of its secrets.
type entry struct {
	target  *event.Target
	filters []*Filter   // its receiver's and its own: an event must meet all
	barred  bool        // a filter cannot be read, so nothing is let through
	expires []time.Time // parallel to target.Signers; zero is never
	keyEnds []time.Time // parallel to target.Keys
}

// NewBook makes an empty book.
func (r *Registry) NewBook(log *slog.Logger) *Book {
	b := &Book{registry: r, log: log}
	b.page.Store(&page{targets: map[event.TargetID]*entry{}, kinds: map[string]*Kind{}})
	return b
}

// Revision is the state of the registry that the book holds.
func (b *Book) Revision() int64 { return b.page.Load().revision }

// Reach reads what is newer in the registry, unless the book is at the wanted
// revision or past it already.
//
// A revision below the book's is most often an answer that took its time. It may also be
// that of a database that was restored, or failed over and lost its last writes: so now
// and then the book asks.
func (b *Book) Reach(ctx context.Context, revision int64) error {
	if at := b.Revision(); at == revision || at > revision && !b.doubtful() {
		return nil
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.Revision() == revision {
		return nil
	}
	return b.read(ctx)
}

// doubtEvery is how often an older revision makes the book ask for its own.
const doubtEvery = 100 * time.Millisecond

func (b *Book) doubtful() bool {
	now, last := time.Now().UnixNano(), b.doubted.Load()
	return now-last >= int64(doubtEvery) && b.doubted.CompareAndSwap(last, now)
}

// Read reads what is newer in the registry.
func (b *Book) Read(ctx context.Context) error {
	b.reading.Lock()
	defer b.reading.Unlock()
	return b.read(ctx)
}

// row is one line of read_book.sql; all but the revision are null where nothing is
// newer.
type row struct {
	Revision    int64
	TargetID    *int32
	Name        *string
	URL         *string
	Key         *string
	Lane        *string
	Declaration []byte
	Own         []byte
	Paused      *bool
	Disabled    *bool
	Deleted     *bool
	Sealed      [][]byte
	Kinds       []string
	Expires     []*time.Time
}

func (b *Book) read(ctx context.Context) error {
	old := b.page.Load()
	rows, err := b.registry.pool.Query(ctx, sqlReadBook, pg.Args{"known": old.revision})
	if err != nil {
		return fmt.Errorf("read the registry: %w", err)
	}
	newer, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
	if err != nil {
		return fmt.Errorf("read the registry: %w", err)
	}
	switch at := newer[0].Revision; {
	case at == old.revision:
		return nil // and what was matched stays known
	case at < old.revision:
		// The database is an older one than this process has seen: nothing of the book is
		// to be trusted.
		b.log.WarnContext(ctx, "the registry went back, as after a restore; reading it anew", "from", old.revision, "to", at)
		b.page.Store(&page{targets: map[event.TargetID]*entry{}, kinds: map[string]*Kind{}})
		return b.read(ctx)
	}
	next := &page{revision: newer[0].Revision, targets: maps.Clone(old.targets)}
	if next.kinds, err = b.readKinds(ctx, old); err != nil {
		return err
	}
	receivers := map[string]*opened{}
	for _, r := range newer {
		if r.TargetID == nil {
			continue
		}
		e := b.open(r, receivers)
		if e.target.Unusable != "" {
			b.log.ErrorContext(ctx, "a stored receiver cannot be used: its deliveries fail", "receiver", *r.Key, "err", e.target.Unusable)
		}
		next.targets[e.target.ID] = e
	}
	b.page.Store(next)
	return nil
}

// readKinds is the declared types, as new as the page at least. One whose schema cannot
// be read holds nobody to anything.
func (b *Book) readKinds(ctx context.Context, old *page) (map[string]*Kind, error) {
	rows, err := b.registry.pool.Query(ctx, sqlReadTypes, pg.Args{"known": old.revision})
	if err != nil {
		return nil, fmt.Errorf("read the event types: %w", err)
	}
	kinds := maps.Clone(old.kinds)
	var t EventType
	var deleted bool
	_, err = pgx.ForEachRow(rows, []any{&t.Name, &t.Description, &t.Schema, &t.Example, &t.Retention, &deleted}, func() error {
		if deleted {
			delete(kinds, t.Name)
			return nil
		}
		k, err := kindOf(&t)
		if err != nil {
			b.log.ErrorContext(ctx, "a stored event type cannot be used: its events are not held to it", "type", t.Name, "err", err)
		}
		kinds[t.Name] = k
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the event types: %w", err)
	}
	return kinds, nil
}

func kindOf(t *EventType) (*Kind, error) {
	k := &Kind{Name: t.Name}
	var failed error
	if t.Retention != "" {
		k.Retention, failed = event.ParseRetention(t.Retention)
	}
	if t.Schema != nil {
		var err error
		k.schema, err = compileSchema(t.Schema)
		failed = cmp.Or(failed, err)
	}
	return k, failed
}

// Kind is a declared type, or nil, with the revision that says so.
func (b *Book) Kind(name string) (*Kind, int64) {
	p := b.page.Load()
	return p.kinds[name], p.revision
}

// open makes a target of what is stored. One that cannot be used is owed its events
// all the same, as far as can be read which ones it wants: a target that left the book
// would be matched by nothing, and what is fired meanwhile lost (P3). Its attempts fail
// and say why.
func (b *Book) open(r row, receivers map[string]*opened) *entry {
	of := receivers[*r.Key]
	if of == nil {
		of = b.resolve(r)
		receivers[*r.Key] = of
	}
	e := &entry{
		target: &event.Target{
			ID: event.TargetID(*r.TargetID), Name: *r.Name, Receiver: of.receiver,
			URL: *r.URL, Paused: *r.Paused, Disabled: *r.Disabled, Deleted: *r.Deleted, Unusable: of.flaw, Unreadable: of.flaw != "",
			RateLimit: of.receiver.RateLimit,
		},
	}
	b.terms(e, of, r.Own)
	var sealed error
	for i, box := range r.Sealed {
		secret, err := b.registry.o.Sealer.Open(e.target.ID, box)
		if err != nil {
			sealed = err
			continue
		}
		var end time.Time
		if r.Expires[i] != nil {
			end = *r.Expires[i]
		}
		if event.Signature(r.Kinds[i]) == event.SignV1a {
			if !of.signsV1a {
				continue
			}
			e.target.Keys, e.keyEnds = append(e.target.Keys, event.SigningKey(secret)), append(e.keyEnds, end)
			continue
		}
		e.target.Signers, e.expires = append(e.target.Signers, event.Secret(secret).Signer()), append(e.expires, end)
	}
	if err := b.registry.calls(of.receiver); err != nil && !e.target.Unreadable {
		e.target.Unusable = "the function " + err.Error()
	}
	if len(e.target.Signers) == 0 && sealed != nil && !e.target.Unreadable {
		e.target.Unusable = sealed.Error()
	}
	return e
}

// terms are the target's own, as far as they can be read: what cannot be would let it
// have more than it asked for, so it then is owed nothing.
func (b *Book) terms(e *entry, of *opened, own []byte) {
	var d TargetDeclaration
	if err := json.Unmarshal(own, &d); err != nil {
		e.target.Unusable, e.target.Unreadable = "the stored declaration of the target cannot be decoded: "+err.Error(), true
		e.target.Patterns = []event.Pattern{}
		return
	}
	e.target.Tenant, e.target.Patterns, e.target.Headers = d.Tenant, d.Events, d.Headers
	for _, text := range []string{of.filter, d.Filter} {
		if text == "" {
			continue
		}
		f, err := of.compiled(text)
		if err != nil {
			e.barred = true
			b.log.Error("a stored filter cannot be used: nothing more is owed there", "receiver", of.receiver.Key, "target", e.target.Name, "err", err)
			continue
		}
		e.filters = append(e.filters, f)
	}
	if d.RateLimit != nil {
		e.target.RateLimit = *d.RateLimit
	}
}

// opened is a declaration that was resolved, or what is wrong with it.
type opened struct {
	receiver *event.Receiver
	signsV1a bool
	filter   string
	filters  map[string]*Filter // of it and its targets, each once
	flaw     string
}

// compiled is the filter of that text.
func (o *opened) compiled(text string) (*Filter, error) {
	if f := o.filters[text]; f != nil {
		return f, nil
	}
	f, err := CompileFilter(text)
	if err == nil {
		o.filters[text] = f
	}
	return f, err
}

func (b *Book) resolve(r row) *opened {
	d, flaw := readDeclaration(r.Declaration)
	receiver := d.Resolve(*r.Key, b.registry.o.Defaults)
	receiver.Lane = *r.Lane
	return &opened{receiver: receiver, signsV1a: slices.Contains(d.Ways(), event.SignV1a), filter: d.Filter, filters: map[string]*Filter{}, flaw: flaw}
}

// readDeclaration reads what is stored, or as much of it as can be, with what is wrong.
func readDeclaration(stored []byte) (d Declaration, flaw string) {
	if err := json.Unmarshal(stored, &d); err != nil {
		return whatItWants(stored), "the stored declaration cannot be decoded: " + err.Error()
	}
	return d, ""
}

// whatItWants is as much of a damaged declaration as matching needs, where that part of
// it can be read.
func whatItWants(declaration []byte) Declaration {
	var wants struct {
		Events []event.Pattern `json:"events"`
		Filter string          `json:"filter"`
	}
	var whose struct {
		Tenant string     `json:"tenant"`
		Mode   event.Mode `json:"mode"`
	}
	if json.Unmarshal(declaration, &wants) != nil || json.Unmarshal(declaration, &whose) != nil {
		return Declaration{} // matches nothing, in the tenant's favour
	}
	return Declaration{Events: wants.Events, Filter: wants.Filter, Tenant: whose.Tenant, Mode: whose.Mode}
}

// Target is the address of that number with its live secrets, or nil where the book
// knows none.
func (b *Book) Target(id event.TargetID) *event.Target {
	e := b.page.Load().targets[id]
	if e == nil {
		return nil
	}
	if !slices.ContainsFunc(slices.Concat(e.expires, e.keyEnds), func(end time.Time) bool { return !end.IsZero() }) {
		return e.target
	}
	return e.withoutExpired(time.Now())
}

func (e *entry) withoutExpired(now time.Time) *event.Target {
	live := *e.target
	live.Signers, live.Keys = nil, nil
	for i, end := range e.keyEnds {
		if end.IsZero() || now.Before(end) {
			live.Keys = append(live.Keys, e.target.Keys[i])
		}
	}
	for i, end := range e.expires {
		if end.IsZero() || now.Before(end) {
			live.Signers = append(live.Signers, e.target.Signers[i])
		}
	}
	return &live
}

// Unusable are the receivers that no attempt can be made for, by key, with why.
func (b *Book) Unusable() map[string]string {
	flawed := map[string]string{}
	for _, e := range b.page.Load().targets {
		if e.target.Unusable != "" && !e.target.Deleted {
			flawed[e.target.Receiver.Key] = e.target.Unusable
		}
	}
	return flawed
}

// Find is the target of that receiver and name with its live secrets, or nil.
func (b *Book) Find(receiver, name string) *event.Target {
	for id, e := range b.page.Load().targets {
		if e.target.Receiver.Key == receiver && e.target.Name == name && !e.target.Deleted {
			return b.Target(id)
		}
	}
	return nil
}
