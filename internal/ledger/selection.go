package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Selection says which deliveries an operation is for: those of the given ids, or those
// that meet a filter. The zero value is all of them.
type Selection struct {
	Filter
	// IDs, unless nil, are the only ones; an empty list is none. Of the filter only the
	// tenant holds for them.
	IDs []event.ID
	// Most, unless nil, is how many to do at most; zero is none.
	Most *int
	// DryRun does everything and takes it back.
	DryRun bool
	// Until, unless zero, is when to stop for now and say that there is more.
	Until time.Time
	// Progress, where given, is told now and then how many are done.
	Progress func(done int)
}

// Tally is what an operation came to.
type Tally struct {
	Done int `json:"done"`
	// Skipped are those that were meant, by why nothing was done: the status they have,
	// not_found, or receiver_gone. Where a filter meant them, at most ten thousand of
	// each are counted.
	Skipped map[string]int `json:"skipped"`
	// More says that the operation stopped before it was through; the same again goes on.
	More bool `json:"more"`
}

// Reasons of a skip that are no status.
const (
	SkippedNotFound = "not_found"
	SkippedGone     = "receiver_gone"
)

// chunk is how many deliveries one transaction of an operation changes.
const chunk = 500

// place is where a delivery stands.
type place struct {
	id, event event.ID
	status    event.Status
}

// operation is one kind of change to deliveries.
type operation struct {
	name string
	// takes are the statuses it changes; by is the one that a filter looks for, unless
	// it says so itself.
	takes []event.Status
	by    []event.Status
	// change does it to some, in a transaction, and answers which were changed.
	change func(ctx context.Context, tx pgx.Tx, some []place) (map[event.ID]event.TargetID, error)
}

// errDry takes a dry run's transaction back.
var errDry = errors.New("a dry run")

// run does an operation to a selection, a chunk at a time.
func (l *Ledger) run(ctx context.Context, op operation, s Selection) (Tally, []event.TargetID, error) {
	t := Tally{Skipped: map[string]int{}}
	woken := map[event.TargetID]bool{}
	if s.Most != nil && *s.Most == 0 || s.IDs != nil && len(s.IDs) == 0 {
		return t, nil, nil
	}
	var err error
	if s.IDs != nil {
		err = l.runIDs(ctx, op, &s, &t, woken)
	} else {
		err = l.runFilter(ctx, op, &s, &t, woken)
	}
	targets := make([]event.TargetID, 0, len(woken))
	for id := range woken {
		targets = append(targets, id)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", op.name, err)
	}
	return t, targets, err
}

func (s *Selection) left(done int) int {
	if s.Most == nil {
		return chunk
	}
	return min(*s.Most-done, chunk)
}

func (s *Selection) late() bool { return !s.Until.IsZero() && time.Now().After(s.Until) }

func (l *Ledger) runIDs(ctx context.Context, op operation, s *Selection, t *Tally, woken map[event.TargetID]bool) error {
	once := slices.Clone(s.IDs)
	slices.SortFunc(once, event.ID.Compare)
	for rest := slices.Compact(once); len(rest) > 0; {
		n := min(len(rest), chunk)
		found, err := l.places(ctx, s.Tenant, rest[:n])
		if err != nil {
			return err
		}
		rest = rest[n:]
		var takes []place
		seen := map[event.ID]bool{}
		for _, p := range found {
			seen[p.id] = true
			if contains(op.takes, p.status) && len(takes) < s.left(t.Done) {
				takes = append(takes, p)
			} else if !contains(op.takes, p.status) {
				t.Skipped[string(p.status)]++
			}
		}
		t.Skipped[SkippedNotFound] += n - len(seen)
		if err := l.runSome(ctx, op, s, t, takes, woken); err != nil {
			return err
		}
		if len(rest) > 0 && s.late() {
			t.More = true
			break
		}
	}
	if t.Skipped[SkippedNotFound] == 0 {
		delete(t.Skipped, SkippedNotFound)
	}
	return nil
}

func (l *Ledger) runFilter(ctx context.Context, op operation, s *Selection, t *Tally, woken map[event.TargetID]bool) error {
	statuses := op.by
	if s.Status != "" {
		statuses = nil
		if contains(op.takes, s.Status) {
			statuses = []event.Status{s.Status}
		}
	}
	counts, err := l.count(ctx, s.Filter)
	if err != nil {
		return err
	}
	for status, n := range counts {
		if !contains(statuses, status) && (s.Status == "" || s.Status == status) {
			t.Skipped[string(status)] = n
		}
	}
	for _, status := range statuses {
		f := s.Filter
		f.Status = status
		for {
			if f.Limit = s.left(t.Done); f.Limit == 0 {
				return nil
			}
			page, err := l.List(ctx, f)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			takes := make([]place, len(page))
			for i, d := range page {
				takes[i] = place{d.ID, d.EventID, d.Status}
			}
			f.Below = takes[len(takes)-1].id
			if err := l.runSome(ctx, op, s, t, takes, woken); err != nil {
				return err
			}
			if s.late() {
				t.More = true
				return nil
			}
		}
	}
	return nil
}

// runSome changes one chunk in one transaction, and counts what it came to.
func (l *Ledger) runSome(ctx context.Context, op operation, s *Selection, t *Tally, takes []place, woken map[event.TargetID]bool) error {
	if len(takes) == 0 {
		return nil
	}
	var done map[event.ID]event.TargetID
	err := l.inTurn(ctx, func(tx pgx.Tx) (err error) {
		if done, err = op.change(ctx, tx, takes); err == nil && s.DryRun {
			return errDry
		}
		return err
	})
	if err != nil && !errors.Is(err, errDry) {
		return err
	}
	t.Done += len(done)
	if !s.DryRun {
		for _, target := range done {
			woken[target] = true
		}
	}
	if s.Progress != nil {
		s.Progress(t.Done)
	}
	if len(done) == len(takes) {
		return nil
	}
	return l.countMissed(ctx, op, t, takes, done)
}

// countMissed says of those that were not changed what they are now: another worker or
// operator was quicker, or their receiver is gone.
func (l *Ledger) countMissed(ctx context.Context, op operation, t *Tally, takes []place, done map[event.ID]event.TargetID) error {
	var missed []event.ID
	for _, p := range takes {
		if _, ok := done[p.id]; !ok {
			missed = append(missed, p.id)
		}
	}
	now, err := l.places(ctx, "", missed)
	if err != nil {
		return err
	}
	t.Skipped[SkippedNotFound] += len(missed) - len(now)
	for _, p := range now {
		if contains(op.takes, p.status) {
			t.Skipped[SkippedGone]++
		} else {
			t.Skipped[string(p.status)]++
		}
	}
	if t.Skipped[SkippedNotFound] == 0 {
		delete(t.Skipped, SkippedNotFound)
	}
	return nil
}

func (l *Ledger) places(ctx context.Context, tenant string, ids []event.ID) ([]place, error) {
	rows, err := l.pool.Query(ctx, sqlStanding, pg.Args{"ids": raw(ids), "tenant": pg.OrNull(tenant)})
	if err != nil {
		return nil, fmt.Errorf("look deliveries up: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p place, err error) {
		err = row.Scan((*[16]byte)(&p.id), (*[16]byte)(&p.event), (*string)(&p.status))
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("look deliveries up: %w", err)
	}
	return found, nil
}

func (l *Ledger) count(ctx context.Context, f Filter) (map[event.Status]int, error) {
	rows, err := l.pool.Query(ctx, sqlCountDeliveries, pgx.QueryExecModeCacheDescribe, f.args())
	if err != nil {
		return nil, fmt.Errorf("count deliveries: %w", err)
	}
	counts := map[event.Status]int{}
	var status event.Status
	var n int
	if _, err := pgx.ForEachRow(rows, []any{(*string)(&status), &n}, func() error { counts[status] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count deliveries: %w", err)
	}
	return counts, nil
}

func contains(statuses []event.Status, s event.Status) bool {
	for _, one := range statuses {
		if one == s {
			return true
		}
	}
	return false
}

func raw(ids []event.ID) [][16]byte {
	out := make([][16]byte, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}
