package fire

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// Book is what the desk asks who is to be told.
type Book interface {
	// Match is every target an event is owed to, and the revision that says so.
	Match(*registry.Occasion) ([]*event.Target, int64)
	// Reach reads what is newer, unless the book holds that revision already.
	Reach(ctx context.Context, revision int64) error
	// Target is one address, or nil.
	Target(event.TargetID) *event.Target
	// Kind is a declared type, or nil, and the revision that says so.
	Kind(name string) (*registry.Kind, int64)
	// Read reads what is newer.
	Read(ctx context.Context) error
}

// Desk takes fires and commits them in groups.
type Desk struct {
	pool      *pgxpool.Pool
	book      Book
	committed func([]event.TargetID)
	after     After
	poll      Poll
	eager     func([]ledger.Debt) []ledger.Debt
	calling   func(context.Context) (Calling, error)
	strict    bool
	quota     quota
	sealer    Sealer
	log       *slog.Logger
	in        chan *slip
	turn      chan struct{} // held by the group that is written
	look      chan struct{} // for what was fired in SQL
	stopped   chan struct{}
}

// Options are what a desk needs. Pool, Book and Log must be set.
type Options struct {
	Pool *pgxpool.Pool
	Book Book
	Log  *slog.Logger
	// Strict refuses events of types that are not declared.
	Strict bool
	// Quota bounds what is owed for the events of one tenant, unless it is 0; Backlogs
	// counts that.
	Quota    int
	Backlogs Backlogs
	// Sealer keeps the secrets that checks are signed with.
	Sealer Sealer
	// Committed is told, after each commit, the targets that are owed something
	// new. It must not block.
	Committed func([]event.TargetID)
	// After is given, after each commit, the events that on_commit receivers are to be told.
	After After
	// Poll asks one inline receiver.
	Poll Poll
	// Eager, where given, is offered before that what is newly owed to eager receivers, and
	// answers what it did not take. Committed is not told of what it took. It must not block.
	Eager func([]ledger.Debt) (left []ledger.Debt)
	// Calling begins a transaction in which inline functions are called.
	Calling func(context.Context) (Calling, error)
}

// Poll asks a target whether an event may be stored: anything but a success is a veto.
type Poll func(ctx context.Context, e *event.Event, to *event.Target) event.Verdict

// After tells targets an event that is stored. It must not block.
type After func(e *event.Event, targets []*event.Target)

// Bounds of one group, and of the queue before it.
const (
	flushers      = 2    // commits in flight
	maxGroup      = 1000 // fires
	maxGroupBytes = 4 << 20
	maxQueue      = 8192
	slow          = 5 * time.Millisecond // is a commit, beside which another begins
)

// Times. A caller is answered within patience plus one write.
const (
	patience     = 2 * time.Second // for a place in a group
	writeTimeout = 1900 * time.Millisecond
)

// slip is one fire on its way through the desk.
type slip struct {
	draft   *Draft
	kind    *registry.Kind     // that the draft was held to
	matched *registry.Occasion // what filters are asked of
	id      event.ID
	spent   event.ID         // what its key is spent on: itself, or the transaction that it is of
	age     time.Duration    // since it was recorded, where that was before
	state   atomic.Int32     // waiting, taken or withdrawn
	written written          // what the database decided, once it has
	asked   []event.TargetID // inline receivers that agreed
	alone   bool             // written in a transaction of its own, in which functions are called
	done    chan struct{}
	receipt Receipt
	err     error
}

func newSlip(draft *Draft, kind *registry.Kind) *slip {
	id := draft.id
	if id.IsZero() {
		id = event.NewID(time.Now())
	}
	return &slip{draft: draft, kind: kind, matched: draft.occasion(), id: id, spent: id, done: make(chan struct{})}
}

const (
	waiting int32 = iota
	taken
	withdrawn
)

// NewDesk makes a desk; Run must run for fires to be answered.
func NewDesk(o Options) *Desk {
	d := &Desk{pool: o.Pool, book: o.Book, sealer: o.Sealer, log: o.Log, committed: o.Committed, eager: o.Eager, after: o.After, poll: o.Poll, calling: o.Calling, strict: o.Strict, in: make(chan *slip, maxQueue), turn: make(chan struct{}, 1), look: make(chan struct{}, 1), stopped: make(chan struct{})}
	d.quota = quota{most: o.Quota, count: o.Backlogs, log: o.Log, owed: map[string]int{}, added: map[string]int{}}
	if d.committed == nil {
		d.committed = func([]event.TargetID) {}
	}
	if d.after == nil {
		d.after = func(*event.Event, []*event.Target) {}
	}
	if d.eager == nil {
		d.eager = func(debts []ledger.Debt) []ledger.Debt { return debts }
	}
	return d
}

// Run commits fires until the context ends, then answers those that are queued and
// returns.
func (d *Desk) Run(ctx context.Context) {
	var writing sync.WaitGroup
	for range flushers {
		writing.Go(func() { d.serve(ctx) })
	}
	writing.Wait()
	close(d.stopped)
}

// Fire writes one event with its key and all that is owed for it, or nothing. The
// draft must have passed Check. An error is one of this package's, or the database's.
//
// A caller whose context ends after its fire was taken into a group gets the context's
// error although the fire may stand: the same key asks again.
func (d *Desk) Fire(ctx context.Context, draft *Draft) (Receipt, error) {
	kind, err := d.hold(ctx, draft)
	if err == nil {
		err = d.quota.full(draft.Tenant)
	}
	if err != nil {
		if receipt, known, errRecall := d.recall(ctx, draft); known || errRecall != nil {
			return receipt, errRecall
		}
		return Receipt{}, err
	}
	s := newSlip(draft, kind)
	for range maxVotes {
		if r, known, err := d.agreed(ctx, s); known || err != nil {
			return r, err
		}
		write := d.submit
		if s.alone {
			write = d.fireAlone
		}
		r, err := write(ctx, s)
		if !errors.Is(err, errUnasked) {
			return r, err
		}
		s = s.again()
	}
	return Receipt{}, ErrBusy
}

// agreed has the inline receivers of an event asked, unless its key is known: then it is
// answered as it was before.
func (d *Desk) agreed(ctx context.Context, s *slip) (r Receipt, known bool, err error) {
	targets, _ := d.book.Match(s.matched) // asks the filters here, so that the flusher finds their answers
	if len(s.unasked(targets)) == 0 {
		return Receipt{}, false, nil
	}
	earlier, err := d.earlier(ctx, s.draft)
	switch {
	case err != nil:
		return Receipt{}, false, err
	case earlier != nil:
		return earlier.receipt, true, earlier.err
	}
	var part PartError
	if err = d.vote(ctx, []*slip{s}); errors.As(err, &part) {
		err = part.Err
	}
	return Receipt{}, false, err
}

// submit has a slip written in a group, and waits for its answer.
func (d *Desk) submit(ctx context.Context, s *slip) (Receipt, error) {
	select {
	case d.in <- s:
	case <-d.stopped:
		return Receipt{}, ErrBusy
	default:
		return Receipt{}, ErrBusy
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case <-s.done:
			return d.counted(s)
		case <-d.stopped:
			return d.lastWord(s)
		case <-late.C:
			if s.state.CompareAndSwap(waiting, withdrawn) {
				return Receipt{}, ErrBusy
			}
		case <-ctx.Done():
			return Receipt{}, ctx.Err()
		}
	}
}

// counted is the answer to a slip, of which its tenant's quota knows then.
func (d *Desk) counted(s *slip) (Receipt, error) {
	if s.err == nil && !s.receipt.Replayed {
		d.quota.add(s.draft.Tenant, len(s.receipt.Owed))
	}
	return s.receipt, s.err
}

// hold holds a draft to its type. What this process knows of the type may be old, so the
// registry is read before a draft is refused.
func (d *Desk) hold(ctx context.Context, draft *Draft) (*registry.Kind, error) {
	kind, _ := d.book.Kind(draft.Type)
	if d.keeps(kind, draft) == nil {
		return kind, nil
	}
	if err := d.book.Read(ctx); err != nil {
		return nil, err
	}
	kind, _ = d.book.Kind(draft.Type)
	return kind, d.keeps(kind, draft)
}

// keeps is why a draft is refused by its type, or nil.
func (d *Desk) keeps(kind *registry.Kind, draft *Draft) error {
	if kind == nil && d.strict {
		return ErrUnknownType
	}
	return kind.Check(draft.Data).Err()
}

// recall is the answer to a draft that its type refuses, or its tenant's quota, where it
// is a repeat: what was fired under its key before is still the answer to the same again.
func (d *Desk) recall(ctx context.Context, draft *Draft) (r Receipt, known bool, err error) {
	s, err := d.earlier(ctx, draft)
	if err != nil || s == nil {
		return Receipt{}, false, err
	}
	return s.receipt, s.err == nil, nil
}

// earlier is a slip that was answered by what a draft's key was spent on, or nil.
func (d *Desk) earlier(ctx context.Context, draft *Draft) (*slip, error) {
	s := &slip{draft: draft, done: make(chan struct{})}
	if err := d.replay(ctx, []plan{{slip: s}}); err != nil {
		return nil, err
	}
	select {
	case <-s.done:
		return s, nil
	default:
		return nil, nil
	}
}

// lastWord is the answer to a fire whose desk has stopped: the one it was given, if it
// was taken at all.
func (d *Desk) lastWord(s *slip) (Receipt, error) {
	select {
	case <-s.done:
		return s.receipt, s.err
	default:
		return Receipt{}, ErrBusy
	}
}

// serve takes the first slip, then whatever queued up behind it without waiting for
// more, and writes them as one group once it is its turn.
func (d *Desk) serve(ctx context.Context) {
	for {
		select {
		case s := <-d.in:
			d.inTurn(ctx, s)
		case <-ctx.Done():
			for {
				select {
				case s := <-d.in:
					d.inTurn(ctx, s)
				default:
					return
				}
			}
		}
	}
}

// inTurn writes the group that a slip is the first of. While another commit is under way
// that is waited for, and what arrives meanwhile is of the group: a small group costs a
// round trip and its plans all the same, and takes the processor from those who would fill
// it. Beside a commit that is slow this one begins.
func (d *Desk) inTurn(ctx context.Context, first *slip) {
	g := &group{}
	g.add(first)
	mine := d.await(g)
	g.fill(d.in)
	d.flush(ctx, g.taken())
	if mine {
		<-d.turn
	}
}

// await waits for the turn of a group, which it has grow meanwhile, and reports whether it
// has come; otherwise the group may go without.
func (d *Desk) await(g *group) (mine bool) {
	late := time.NewTimer(slow)
	defer late.Stop()
	for {
		in := d.in
		if g.full() {
			in = nil
		}
		select {
		case d.turn <- struct{}{}:
			return true
		case s := <-in:
			g.add(s)
		case <-late.C:
			return false
		}
	}
}

// group is slips that are to be written together.
type group struct {
	slips []*slip
	bytes int
}

func (g *group) add(s *slip) {
	g.slips = append(g.slips, s)
	g.bytes += len(s.draft.Data)
}

func (g *group) full() bool { return len(g.slips) >= maxGroup || g.bytes >= maxGroupBytes }

// fill adds what is queued, without waiting for more.
func (g *group) fill(in <-chan *slip) {
	for !g.full() {
		select {
		case s := <-in:
			g.add(s)
		default:
			return
		}
	}
}

// taken are those whose callers still wait, and from now on for their answers alone.
func (g *group) taken() []*slip {
	return slices.DeleteFunc(g.slips, func(s *slip) bool { return !s.state.CompareAndSwap(waiting, taken) })
}

// answer gives a slip its result.
func (s *slip) answer(r Receipt, err error) {
	s.receipt, s.err = r, err
	close(s.done)
}
