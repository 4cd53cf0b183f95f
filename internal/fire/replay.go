package fire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// To narrows a replay to events of a tenant, unless that is "", and to some of the
// receivers, and some of their targets. Nil is all.
type To struct {
	Tenant    string
	Receivers []string
	Targets   []string
}

func (to To) takes(t *event.Target) bool {
	return (to.Receivers == nil || slices.Contains(to.Receivers, t.Receiver.Key)) &&
		(to.Targets == nil || slices.Contains(to.Targets, t.Name))
}

// Replayed is what a replay came to.
type Replayed struct {
	Reopened int `json:"reopened"` // deliveries that had ended, and are owed again
	Added    int `json:"added"`    // receivers or targets that had none
	// Skipped are deliveries that were left alone, by their status: they are owed
	// already.
	Skipped map[event.Status]int `json:"skipped"`
}

// errDry takes a dry run's transaction back.
var errDry = errors.New("a dry run")

// Replay owes an event again: what has ended is reopened with its whole budget, and who
// wants such events now and has no delivery gets one. What is owed already is left
// alone. Nothing is owed for a suppressed event. One that was fired in SQL and is to be
// matched in a moment is left to that, which owes it to all who want it. It answers
// [ErrNotFound] where the event is gone.
func (d *Desk) Replay(ctx context.Context, id event.ID, to To, dry bool) (Replayed, error) {
	var r Replayed
	var woken []event.TargetID
	err := d.fenced(ctx, func(tx pgx.Tx) (err error) {
		if r, woken, err = d.replayIn(ctx, tx, id, to); err == nil && dry {
			return errDry
		}
		return err
	})
	switch {
	case errors.Is(err, errDry):
		return r, nil
	case err != nil:
		return Replayed{}, fmt.Errorf("replay an event: %w", err)
	}
	d.committed(woken)
	return r, nil
}

func (d *Desk) replayIn(ctx context.Context, tx pgx.Tx, id event.ID, to To) (r Replayed, woken []event.TargetID, err error) {
	fresh, err := lockMatching(ctx, tx, id)
	if err != nil {
		return r, nil, err
	}
	e, age, revision, err := lock(ctx, tx, id)
	if err != nil {
		return r, nil, err
	}
	if to.Tenant != "" && e.Tenant != to.Tenant {
		return r, nil, ErrNotFound
	}
	r.Skipped = map[event.Status]int{}
	if e.Suppress != nil || fresh {
		return r, nil, nil
	}
	if err := d.book.Reach(ctx, revision); err != nil {
		return r, nil, err
	}
	if _, err := tx.Exec(ctx, sqlEndUnmatched, pg.Args{"id": [16]byte(id)}); err != nil {
		return r, nil, fmt.Errorf("end the matching of the event: %w", err)
	}
	standing, err := ledger.Standing(ctx, tx, id)
	if err != nil {
		return r, nil, err
	}
	reopen, add := d.partTargets(&e, to, standing, r.Skipped)
	reopened, err := ledger.Reopen(ctx, tx, id, reopen)
	if err != nil {
		return r, nil, err
	}
	r.Reopened, r.Added = len(reopened), len(add)
	if len(standing)+len(add) > maxFanOut {
		return r, nil, ErrTooWide
	}
	if err := addDebts(ctx, tx, id, add, age); err != nil {
		return r, nil, err
	}
	woken = reopened
	for _, t := range add {
		woken = append(woken, t.ID)
	}
	return r, woken, nil
}

// lockMatching locks the matching of an event that was fired in SQL, and answers whether
// that is still to come.
func lockMatching(ctx context.Context, tx pgx.Tx, id event.ID) (fresh bool, err error) {
	err = tx.QueryRow(ctx, sqlLockUnmatched, pg.Args{"id": [16]byte(id)}).Scan(&fresh)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("lock the matching of the event: %w", err)
	}
	return fresh, nil
}

// lock locks an event against a prune, another replay or a requeue of it, and reads it,
// its age, and the registry's revision.
func lock(ctx context.Context, tx pgx.Tx, id event.ID) (e event.Event, age time.Duration, revision int64, err error) {
	var r record
	err = tx.QueryRow(ctx, sqlLockEvent, pg.Args{"id": [16]byte(id)}).Scan(append(append([]any{(*[16]byte)(&e.ID)}, r.fields()...), &age, &revision)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, 0, 0, ErrNotFound
	}
	if err != nil {
		return e, 0, 0, fmt.Errorf("lock the event: %w", err)
	}
	return e, age, revision, r.fill(&e)
}

// partTargets says whose deliveries are to be reopened, and who is to get one. A target
// that is gone is left as it is.
func (d *Desk) partTargets(e *event.Event, to To, standing map[event.TargetID]event.Status, skipped map[event.Status]int) (reopen, add []*event.Target) {
	for target, status := range standing {
		t := d.book.Target(target)
		switch {
		case t == nil || t.Deleted || !to.takes(t):
		case status.Terminal():
			reopen = append(reopen, t)
		default:
			skipped[status]++
		}
	}
	wanting, _ := d.book.Match(&registry.Occasion{Type: e.Type, Data: e.Data, Facts: e.Facts})
	for _, t := range partModes(wanting).owed {
		if _, has := standing[t.ID]; !has && to.takes(t) {
			add = append(add, t)
		}
	}
	return reopen, add
}

// addDebts owes an event to targets that it was not owed to: due when they would have
// been, or at once if that has passed.
func addDebts(ctx context.Context, tx pgx.Tx, id event.ID, targets []*event.Target, age time.Duration) error {
	if len(targets) == 0 {
		return nil
	}
	debts, _ := owe(id, targets, time.Now())
	for i := range debts {
		debts[i].Due = max(debts[i].Due-age, 0)
	}
	var b pgx.Batch
	ledger.Owe(&b, debts)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("owe the event to more: %w", err)
	}
	return nil
}

// ReplayAll is which events to replay, to whom, and how far to go.
type ReplayAll struct {
	Filter
	To
	// IDs, unless nil, are the only events; an empty list is none.
	IDs []event.ID
	// Most, unless nil, bounds the events; zero is none.
	Most     *int
	DryRun   bool
	Until    time.Time
	Progress func(events int)
}

// ReplayedAll is what that came to.
type ReplayedAll struct {
	Replayed
	Events   int `json:"events"` // looked at
	NotFound int `json:"not_found"`
	// Next, unless zero, says that there is more: the same again below this id goes on.
	Next event.ID `json:"-"`
}

// replayPage is how many events are looked up at a time.
const replayPage = 200

// ReplayAll replays events, newest first, each in a transaction of its own: one that
// fails leaves the others as they are.
func (d *Desk) ReplayAll(ctx context.Context, a ReplayAll) (ReplayedAll, error) {
	all := ReplayedAll{Replayed: Replayed{Skipped: map[event.Status]int{}}}
	if a.Most != nil && *a.Most == 0 {
		return all, nil
	}
	if a.IDs != nil {
		ids := slices.Clone(a.IDs)
		ids = slices.DeleteFunc(ids, func(id event.ID) bool { return !a.Below.IsZero() && id.Compare(a.Below) >= 0 })
		slices.SortFunc(ids, func(x, y event.ID) int { return y.Compare(x) })
		_, err := d.replaySome(ctx, &a, &all, slices.Compact(ids))
		return all, err
	}
	for {
		f := a.Filter
		f.Limit = replayPage
		page, err := d.List(ctx, f)
		if err != nil || len(page) == 0 {
			return all, err
		}
		ids := make([]event.ID, len(page))
		for i := range page {
			ids[i] = page[i].ID
		}
		a.Below = ids[len(ids)-1]
		if enough, err := d.replaySome(ctx, &a, &all, ids); err != nil || enough {
			return all, err
		}
	}
}

func (d *Desk) replaySome(ctx context.Context, a *ReplayAll, all *ReplayedAll, ids []event.ID) (enough bool, err error) {
	for _, id := range ids {
		if a.Most != nil && all.Events >= *a.Most {
			return true, nil
		}
		if !a.Until.IsZero() && time.Now().After(a.Until) {
			all.Next = event.IDAfter(id)
			return true, nil
		}
		r, err := d.Replay(ctx, id, a.To, a.DryRun)
		switch {
		case errors.Is(err, ErrNotFound):
			all.NotFound++
			continue
		case err != nil:
			return false, err
		}
		all.Events++
		all.Reopened += r.Reopened
		all.Added += r.Added
		for status, n := range r.Skipped {
			all.Skipped[status] += n
		}
		if a.Progress != nil {
			a.Progress(all.Events)
		}
	}
	return false, nil
}
