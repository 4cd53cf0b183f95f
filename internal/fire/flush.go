package fire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// Lock waits. A group must not stand still for one key that a transaction elsewhere
// holds: it gives up early and its fires are written one by one, where only the one
// that wants the held key waits longer.
const (
	groupLockWait  = 200 * time.Millisecond
	singleLockWait = time.Second
)

// flush writes one group and answers every slip of it. Stopping does not cut it
// short: a commit under way is waited for.
func (d *Desk) flush(ctx context.Context, group []*slip) {
	if len(group) == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	defer d.survive(ctx, group)
	firsts, echoes := collapse(group)
	d.settle(ctx, firsts, groupLockWait)
	for _, e := range echoes {
		e.slip.echo(e.of)
	}
}

// survive answers a group under which something panicked: one fire must not end the
// process with all that others have under way. Whether anything was written is not
// known; the same keys find out.
func (d *Desk) survive(ctx context.Context, group []*slip) {
	cause := recover()
	if cause == nil {
		return
	}
	d.log.ErrorContext(ctx, "writing a group of fires panicked", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	for _, s := range unanswered(group) {
		s.answer(Receipt{}, fmt.Errorf("writing the event panicked: %v", cause))
	}
}

// echo is a slip with the key of another slip of its group.
type echo struct{ slip, of *slip }

// collapse parts a group into slips of different keys, in the order that keys are
// locked in, and the echoes.
func collapse(group []*slip) (firsts []*slip, echoes []echo) {
	slices.SortStableFunc(group, func(x, y *slip) int {
		return cmp.Or(cmp.Compare(x.draft.Producer, y.draft.Producer), cmp.Compare(x.draft.Key, y.draft.Key))
	})
	for _, s := range group {
		if n := len(firsts); n > 0 && firsts[n-1].draft.Producer == s.draft.Producer && firsts[n-1].draft.Key == s.draft.Key {
			echoes = append(echoes, echo{s, firsts[n-1]})
			continue
		}
		firsts = append(firsts, s)
	}
	return firsts, echoes
}

// echo answers a slip from the first one of its key, which has been answered.
func (s *slip) echo(of *slip) {
	switch {
	case of.err != nil && !errors.Is(of.err, ErrKeyReused):
		s.answer(Receipt{}, of.err)
	case of.err != nil:
		// The first one met an older event; this one may be that event's repeat, which the
		// caller finds out by asking again.
		s.answer(Receipt{}, ErrKeyInUse)
	case !sameFact(s.draft, of.draft.Body, &of.receipt.Event):
		s.answer(Receipt{}, ErrKeyReused)
	default:
		r := of.receipt
		r.Replayed = true
		s.answer(r, nil)
	}
}

// settle writes slips of different keys and answers them all. Where the group fails
// as a whole, it finds out whose fault it was.
func (d *Desk) settle(ctx context.Context, slips []*slip, lockWait time.Duration) {
	err := d.write(ctx, slips, lockWait)
	if pg.Retryable(err) || pg.Unavailable(err) && !errors.Is(err, context.DeadlineExceeded) {
		// The ids are the same, so a first try that was committed after all is recognised
		// as one's own.
		err = d.write(ctx, slips, lockWait)
	}
	slips = unanswered(slips)
	switch {
	case len(slips) == 0:
	case err == nil:
		panic("fire: a slip was left without an answer")
	case len(slips) == 1 && pg.LockTimeout(err) && lockWait < singleLockWait:
		d.settle(ctx, slips, singleLockWait)
	case len(slips) == 1 && pg.LockTimeout(err):
		slips[0].answer(Receipt{}, ErrKeyInUse)
	case len(slips) > 1 && pg.LockTimeout(err):
		d.apart(ctx, slips)
	case len(slips) > 1 && pg.BadData(err):
		half := len(slips) / 2
		d.settle(ctx, slips[:half], lockWait)
		d.settle(ctx, slips[half:], lockWait)
	default:
		for _, s := range slips {
			s.answer(Receipt{}, err)
		}
	}
}

// apart writes slips one by one, a few at once, so that those whose keys are free do
// not wait for those whose keys are held.
func (d *Desk) apart(ctx context.Context, slips []*slip) {
	const atOnce = 4
	slots := make(chan struct{}, atOnce)
	for _, s := range slips {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			d.settleAlone(ctx, s)
		}()
	}
	for range atOnce {
		slots <- struct{}{}
	}
}

func unanswered(slips []*slip) []*slip {
	return slices.DeleteFunc(slices.Clone(slips), func(s *slip) bool {
		select {
		case <-s.done:
			return true
		default:
			return false
		}
	})
}

// plan is a slip with what it is owed to.
type plan struct {
	*slip
	debts []ledger.Debt
	owed  []Owed
	// after are those to be told once it is committed.
	after []*event.Target
	// calls are the inline functions to be called in its transaction.
	calls []*event.Target
	// retention of its type, when it was fired.
	retention event.Retention
}

// maxGroupDebts bounds the deliveries of one transaction; a single fire may owe more.
const maxGroupDebts = 5000

// write plans the slips against the registry and writes them, until each is answered
// or the database fails. Slips stay unanswered when it answers an error. One that functions
// are called for does not follow a registry that never stands still for as long as they take.
func (d *Desk) write(ctx context.Context, slips []*slip, lockWait time.Duration) error {
	slips = unanswered(slips)
	for tries := 0; len(slips) > 0; tries++ {
		if slips[0].alone && tries == maxVotes {
			return ErrBusy
		}
		plans, refused, revision := d.plan(slips)
		if err := d.refuse(ctx, refused); err != nil {
			return err
		}
		plans = wideLast(plans)
		for len(plans) > 0 {
			n := portion(plans)
			current, err := d.commitPart(ctx, plans[:n], revision, lockWait)
			if err != nil {
				return err
			}
			if current != revision {
				if err := d.reach(ctx, current); err != nil {
					return err
				}
				break
			}
			plans = plans[n:]
		}
		slips = unanswered(slips)
	}
	return nil
}

func (d *Desk) commitPart(ctx context.Context, plans []plan, revision int64, lockWait time.Duration) (int64, error) {
	if plans[0].alone {
		return d.commitAlone(ctx, plans[0], revision, lockWait)
	}
	return d.commit(ctx, plans, revision, lockWait)
}

// reachTimeout bounds the reading of what is newer in the registry. It is generous: ten
// thousand targets that were imported at once take a while to read, and a reading that is
// cut off begins anew.
const reachTimeout = 10 * time.Second

// reach has the book read what is newer.
func (d *Desk) reach(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	return d.book.Reach(ctx, revision)
}

// wide is how many deliveries make an event one that is written alone, after the others:
// they must not wait for it, or fail with it.
const wide = 1000

func wideLast(plans []plan) []plan {
	slices.SortStableFunc(plans, func(x, y plan) int {
		return cmp.Compare(min(len(x.debts), wide)/wide, min(len(y.debts), wide)/wide)
	})
	return plans
}

// matched is who an event is owed to, and what its type is, by one state of the registry.
type matched struct {
	targets []*event.Target
	kind    *registry.Kind
}

// match matches every slip against one state of the registry.
func (d *Desk) match(slips []*slip) ([]matched, int64) {
	for {
		found := make([]matched, 0, len(slips))
		var revision int64
		for i, s := range slips {
			targets, rev := d.book.Match(s.matched)
			kind, known := d.book.Kind(s.draft.Type)
			if known != rev || i > 0 && rev != revision {
				break
			}
			revision = rev
			found = append(found, matched{targets, kind})
		}
		if len(found) == len(slips) {
			return found, revision
		}
	}
}

// plan is what every slip comes to by one state of the registry, and which of them are
// refused by it. A slip that would owe too much is answered at once.
func (d *Desk) plan(slips []*slip) (plans []plan, refused []refusal, revision int64) {
	found, revision := d.match(slips)
	for i, s := range slips {
		if err := d.heldTo(s, found[i].kind); err != nil {
			refused = append(refused, refusal{s, err})
			continue
		}
		if len(s.unasked(found[i].targets)) > 0 {
			s.answerOnce(errUnasked)
			continue
		}
		plans = append(plans, planOf(s, &found[i]))
	}
	return slices.DeleteFunc(plans, tooWide), refused, revision
}

func planOf(s *slip, m *matched) plan {
	p := plan{slip: s}
	if m.kind != nil {
		p.retention = m.kind.Retention
	}
	if s.draft.Suppress == nil {
		to := partModes(m.targets)
		p.debts, p.owed = owe(s.id, to.owed, time.Now())
		p.after, p.calls = to.after, functions(s.inline(m.targets))
	}
	return p
}

func tooWide(p plan) bool {
	if len(p.debts) <= maxFanOut {
		return false
	}
	p.answerOnce(ErrTooWide)
	return true
}

// heldTo is what is wrong with a slip by its type, where that is not the one that it was
// held to before.
func (d *Desk) heldTo(s *slip, kind *registry.Kind) error {
	if kind == s.kind {
		return nil
	}
	return d.keeps(kind, s.draft)
}

// refusal is a slip that its type refuses.
type refusal struct {
	*slip
	why error
}

// refuse answers slips whose type was declared otherwise while they were under way,
// unless they repeat what was fired before.
func (d *Desk) refuse(ctx context.Context, refused []refusal) error {
	for _, r := range refused {
		receipt, known, err := d.recall(ctx, r.draft)
		switch {
		case err != nil:
			return err
		case known:
			r.answer(receipt, nil)
		default:
			r.answer(Receipt{}, r.why)
		}
	}
	return nil
}

// answerOnce refuses a slip, unless it was answered while it was planned before.
func (s *slip) answerOnce(err error) {
	select {
	case <-s.done:
	default:
		s.answer(Receipt{}, err)
	}
}

// portion is how many of the plans go into one transaction.
func portion(plans []plan) int {
	debts := 0
	for i, p := range plans {
		if len(p.debts) >= wide && i > 0 {
			return i
		}
		debts += len(p.debts)
		if debts > maxGroupDebts && i > 0 {
			return i
		}
	}
	return len(plans)
}

// targetsOf is every target that plans owe something to.
func targetsOf(plans []plan) []event.TargetID {
	var ids []event.TargetID
	for _, p := range plans {
		for _, debt := range p.debts {
			ids = append(ids, debt.TargetID)
		}
	}
	return distinct(ids)
}

func distinct(ids []event.TargetID) []event.TargetID {
	slices.Sort(ids)
	return slices.Compact(ids)
}
