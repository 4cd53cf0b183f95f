package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Requeue owes dead deliveries again, with their whole budget, available at once, and
// under the webhook-id they had. Orphaned ones are taken where their ids or the filter's
// status name them, once their receiver is declared again. It answers whom they are
// owed to as well, who are to be woken.
func (l *Ledger) Requeue(ctx context.Context, s Selection) (Tally, []event.TargetID, error) {
	return l.run(ctx, operation{
		name:  "requeue deliveries",
		takes: []event.Status{event.Dead, event.Orphaned},
		by:    []event.Status{event.Dead},
		change: func(ctx context.Context, tx pgx.Tx, some []place) (map[event.ID]event.TargetID, error) {
			if err := lockEvents(ctx, tx, some); err != nil {
				return nil, err
			}
			events, ids := make([]event.ID, len(some)), make([]event.ID, len(some))
			for i, p := range some {
				events[i], ids[i] = p.event, p.id
			}
			return changed(tx.Query(ctx, sqlRequeue, pg.Args{"events": raw(events), "ids": raw(ids)}))
		},
	}, s)
}

// Cancel withdraws deliveries that are pending or failed. Of a cancel and a claim of one
// delivery exactly one succeeds.
func (l *Ledger) Cancel(ctx context.Context, s Selection) (Tally, error) {
	t, _, err := l.run(ctx, operation{
		name:  "cancel deliveries",
		takes: []event.Status{event.Pending, event.Failed},
		by:    []event.Status{event.Pending, event.Failed},
		change: func(ctx context.Context, tx pgx.Tx, some []place) (map[event.ID]event.TargetID, error) {
			ids := make([]event.ID, len(some))
			for i, p := range some {
				ids[i] = p.id
			}
			rows, err := tx.Query(ctx, sqlCancel, pg.Args{"ids": raw(ids)})
			if err != nil {
				return nil, err
			}
			gone, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id event.ID, err error) {
				err = row.Scan((*[16]byte)(&id))
				return id, err
			})
			done := make(map[event.ID]event.TargetID, len(gone))
			for _, id := range gone {
				done[id] = 0
			}
			return done, err
		},
	}, s)
	return t, err
}

// lockEvents locks the events of deliveries in the order of their ids, as the prune, a
// replay and a requeue all do: whoever comes second sees what the first has done, and
// none waits for another in a circle.
func lockEvents(ctx context.Context, tx pgx.Tx, some []place) error {
	events := make([]event.ID, len(some))
	for i, p := range some {
		events[i] = p.event
	}
	slices.SortFunc(events, event.ID.Compare)
	_, err := tx.Exec(ctx, sqlLockEvents, pg.Args{"events": raw(slices.Compact(events))})
	if err != nil {
		return fmt.Errorf("lock events: %w", err)
	}
	return nil
}

// Reopen owes an event's ended deliveries to targets again, in the caller's transaction,
// which has locked the event. A delivery that had succeeded is a new sending, in the
// format that its target has now.
func Reopen(ctx context.Context, tx pgx.Tx, of event.ID, targets []*event.Target) ([]event.TargetID, error) {
	ids, kinds := make([]int32, len(targets)), make([]int16, len(targets))
	for i, t := range targets {
		ids[i], kinds[i] = int32(t.ID), formatNumber(t.Receiver.Format)
	}
	rows, err := tx.Query(ctx, sqlReopen, pg.Args{"event": [16]byte(of), "targets": ids, "formats": kinds})
	if err != nil {
		return nil, fmt.Errorf("reopen deliveries: %w", err)
	}
	reopened, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return nil, fmt.Errorf("reopen deliveries: %w", err)
	}
	out := make([]event.TargetID, len(reopened))
	for i, id := range reopened {
		out[i] = event.TargetID(id)
	}
	return out, nil
}

// Standing is where an event's deliveries stand, by target, seen by the caller's
// transaction.
func Standing(ctx context.Context, tx pgx.Tx, of event.ID) (map[event.TargetID]event.Status, error) {
	rows, err := tx.Query(ctx, sqlStandingOf, pg.Args{"event": [16]byte(of)})
	if err != nil {
		return nil, fmt.Errorf("look up an event's deliveries: %w", err)
	}
	standing := map[event.TargetID]event.Status{}
	var target int32
	var status event.Status
	if _, err := pgx.ForEachRow(rows, []any{&target, (*string)(&status)}, func() error {
		standing[event.TargetID(target)] = status
		return nil
	}); err != nil {
		return nil, fmt.Errorf("look up an event's deliveries: %w", err)
	}
	return standing, nil
}

func changed(rows pgx.Rows, err error) (map[event.ID]event.TargetID, error) {
	if err != nil {
		return nil, err
	}
	done := map[event.ID]event.TargetID{}
	var id [16]byte
	var target int32
	_, err = pgx.ForEachRow(rows, []any{&id, &target}, func() error { done[id] = event.TargetID(target); return nil })
	return done, err
}

// inTurn runs a transaction under [Pin], again where it was rolled back for the sake of
// another.
func (l *Ledger) inTurn(ctx context.Context, do func(tx pgx.Tx) error) error {
	return InTurn(ctx, l.pool, do)
}

// InTurn runs a transaction whose plans are pinned, and runs it again where it was
// rolled back for the sake of another.
func InTurn(ctx context.Context, pool Beginner, do func(tx pgx.Tx) error) error {
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var b pgx.Batch
			Pin(&b, lockWait)
			if err := tx.SendBatch(ctx, &b).Close(); err != nil {
				return fmt.Errorf("pin plans: %w", err)
			}
			return do(tx)
		})
		if !pg.Retryable(err) || pause > time.Second {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return cmp.Or(ctx.Err(), err)
		}
	}
}

// Beginner begins transactions.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}
