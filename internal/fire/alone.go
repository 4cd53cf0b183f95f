package fire

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// Calling is a transaction in which inline functions are called. A failed call has ended it.
type Calling interface {
	Tx() pgx.Tx
	// Ask calls a target's function: anything but a success is a veto.
	Ask(ctx context.Context, e *event.Event, to *event.Target) event.Verdict
	Commit(ctx context.Context) error
	// End undoes what was not committed.
	End()
}

// fireAlone writes an event that functions are called for, in a transaction of its own: a
// veto and a function's time are nobody else's. Once begun it is not cut short.
func (d *Desk) fireAlone(ctx context.Context, s *slip) (Receipt, error) {
	d.settleAlone(context.WithoutCancel(ctx), s)
	return d.counted(s)
}

// settleAlone writes one slip, which has all the time that a held key may take.
func (d *Desk) settleAlone(ctx context.Context, s *slip) {
	defer d.survive(ctx, []*slip{s})
	d.settle(ctx, []*slip{s}, singleLockWait)
}

// begin has a transaction to call functions in, or [ErrBusy].
func (d *Desk) begin(ctx context.Context) (Calling, error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := d.calling(waiting)
	if err != nil && waiting.Err() != nil {
		return nil, ErrBusy
	}
	return c, err
}

// commitAlone is commit for one plan whose functions are called after its key is won, and
// before anything that others could wait for is locked.
func (d *Desk) commitAlone(ctx context.Context, p plan, revision int64, lockWait time.Duration) (current int64, err error) {
	c, err := d.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer c.End()
	plans := []plan{p}
	ctx, cancel := context.WithTimeout(ctx, 2*writeTimeout+widthTime(plans)+callTime(plans))
	defer cancel()
	current, won, err := spendAlone(ctx, c.Tx(), plans, revision, lockWait)
	switch {
	case err != nil || current != revision:
		return current, err
	case !won:
		c.End()
		return current, d.replay(ctx, plans)
	}
	if err := d.call(ctx, c, p); err != nil {
		return 0, err
	}
	if current, err = fenceLate(ctx, c.Tx(), plans); err != nil || current != revision {
		return current, err
	}
	recorded, err := writeEvents(ctx, c.Tx(), plans)
	if err != nil {
		return 0, err
	}
	if err := c.Commit(ctx); err != nil {
		return 0, fmt.Errorf("write an event: %w", err)
	}
	d.stored(plans, recorded)
	return current, nil
}

func spendAlone(ctx context.Context, tx pgx.Tx, plans []plan, revision int64, lockWait time.Duration) (current int64, won bool, err error) {
	var b pgx.Batch
	ledger.Pin(&b, lockWait)
	b.Queue(sqlSpend, turn(plans).keyArgs(revision))
	results := tx.SendBatch(ctx, &b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return 0, false, fmt.Errorf("pin plans: %w", err)
	}
	ids := map[event.ID]bool{}
	current, err = readWon(results, ids)
	return current, len(ids) > 0, err
}

// call has the functions of a plan called, one after the other. It answers with the first
// veto, which has ended the transaction.
func (d *Desk) call(ctx context.Context, c Calling, p plan) error {
	e := p.fact()
	for _, t := range p.calls {
		if err := d.veto(ctx, c.Ask, &e, t); err != nil {
			return err
		}
	}
	return nil
}

// callTogether is call for events that are fired together, or held. They are planned by a
// state of the registry that still holds when the functions have returned.
func (d *Desk) callTogether(ctx context.Context, c Calling, slips []*slip) ([]plan, error) {
	plans, matched, err := d.planTogether(slips)
	if err != nil {
		return nil, err
	}
	for i, p := range plans {
		if err := d.call(ctx, c, p); err != nil {
			return nil, PartError{i, err}
		}
	}
	current, err := fenceLate(ctx, c.Tx(), plans)
	if err == nil && current != matched {
		err = errMovedOn
	}
	return plans, err
}

// fenceLate takes what fires take, and pins plans anew, once functions have returned: held
// under them, it would have a removal wait, and all fires behind that. It answers the
// registry's revision.
func fenceLate(ctx context.Context, tx pgx.Tx, plans []plan) (revision int64, err error) {
	var b pgx.Batch
	enter(&b, plans, singleLockWait)
	b.Queue(sqlRevision).QueryRow(func(row pgx.Row) error { return row.Scan(&revision) })
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return 0, fmt.Errorf("go on after functions: %w", err)
	}
	return revision, nil
}

// callTime bounds the functions of plans, which are called one after the other.
func callTime(plans []plan) (all time.Duration) {
	for _, p := range plans {
		for _, t := range p.calls {
			all += t.Receiver.Timeout
		}
	}
	return all
}

// within runs a transaction, one in which functions are called where events need that.
func (d *Desk) within(ctx context.Context, slips []*slip, do func(tx pgx.Tx, c Calling) error) error {
	if !slices.ContainsFunc(slips, func(s *slip) bool { return s.alone }) {
		return d.fenced(ctx, func(tx pgx.Tx) error { return do(tx, nil) })
	}
	c, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer c.End()
	var b pgx.Batch
	ledger.Pin(&b, singleLockWait)
	if err := c.Tx().SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("pin plans: %w", err)
	}
	if err := do(c.Tx(), c); err != nil {
		return err
	}
	return c.Commit(ctx)
}
