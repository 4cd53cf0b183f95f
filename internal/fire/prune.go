package fire

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Prune is how to delete what is past its retention.
type Prune struct {
	// Keep is the window of events that have none of their own, from recorded_at.
	Keep time.Duration
	// Rows bounds what one transaction deletes of deliveries and attempts.
	Rows int
	// Most, unless nil, bounds the events; zero is none.
	Most     *int
	DryRun   bool // counts, and deletes nothing
	Until    time.Time
	Progress func(events int)
}

// Pruned is what a prune came to.
type Pruned struct {
	Events int  `json:"events"`
	Keys   int  `json:"keys"` // that had outlived their events
	More   bool `json:"more"` // it stopped before it was through
}

// pruneEvents is how many events one transaction deletes at most.
const pruneEvents = 500

// Prune deletes events whose time is over, with all that is kept of them. It never
// touches one that something is owed for: that is looked at again under a lock that
// replays and requeues take too. An event with more rows than one transaction may
// delete loses them bit by bit, and goes last itself. Several prunes at once do not
// disturb each other.
func (d *Desk) Prune(ctx context.Context, p Prune) (Pruned, error) {
	var done Pruned
	var after event.ID
	for {
		n := pruneEvents
		if p.Most != nil {
			n = min(n, *p.Most-done.Events)
		}
		if n <= 0 {
			return done, nil
		}
		if !p.Until.IsZero() && time.Now().After(p.Until) {
			done.More = true
			return done, nil
		}
		ids, err := d.prunable(ctx, p.Keep, after, n)
		if err != nil {
			return done, err
		}
		if len(ids) == 0 {
			return done, d.pruneKeys(ctx, p, &done)
		}
		after = ids[len(ids)-1]
		if p.DryRun {
			done.Events += len(ids)
			continue
		}
		if err := d.pruneSome(ctx, p, ids, &done); err != nil {
			return done, err
		}
	}
}

func (d *Desk) prunable(ctx context.Context, keep time.Duration, after event.ID, n int) (ids []event.ID, err error) {
	err = ledger.InTurn(ctx, d.pool, func(tx pgx.Tx) (err error) {
		ids, err = collectIDs(tx.Query(ctx, sqlPrunable, pg.Args{"keep": keep, "after": [16]byte(after), "n": n}))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for events to prune: %w", err)
	}
	return ids, nil
}

// pruneSome deletes some events, in as many transactions as their rows take.
func (d *Desk) pruneSome(ctx context.Context, p Prune, ids []event.ID, done *Pruned) error {
	for {
		gone, whole := 0, false
		err := ledger.InTurn(ctx, d.pool, func(tx pgx.Tx) (err error) {
			gone, whole, err = d.pruneIn(ctx, tx, p, ids)
			return err
		})
		if err != nil {
			return fmt.Errorf("prune events: %w", err)
		}
		done.Events += gone
		if p.Progress != nil {
			p.Progress(done.Events)
		}
		if whole {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// pruneIn is one transaction. whole says that there is nothing left to do about these
// events.
func (d *Desk) pruneIn(ctx context.Context, tx pgx.Tx, p Prune, ids []event.ID) (gone int, whole bool, err error) {
	held, err := collectIDs(tx.Query(ctx, sqlLockPrunable, pg.Args{"ids": rawIDs(ids)}))
	if err != nil || len(held) == 0 {
		return 0, true, err
	}
	still, err := collectIDs(tx.Query(ctx, sqlStillPrunable, pg.Args{"ids": rawIDs(held), "keep": p.Keep}))
	if err != nil || len(still) == 0 {
		return 0, true, err
	}
	rows, err := ledger.Forget(ctx, tx, still, p.Rows)
	if err != nil || rows >= p.Rows {
		return 0, false, err
	}
	if err := tx.QueryRow(ctx, sqlDeleteEvents, pg.Args{"ids": rawIDs(still)}).Scan(&gone); err != nil {
		return 0, false, err
	}
	return gone, true, nil
}

func (d *Desk) pruneKeys(ctx context.Context, p Prune, done *Pruned) error {
	for !p.DryRun {
		tag, err := d.pool.Exec(ctx, sqlDeleteKeys, pg.Args{"n": p.Rows})
		if err != nil {
			return fmt.Errorf("prune keys: %w", err)
		}
		done.Keys += int(tag.RowsAffected())
		if tag.RowsAffected() < int64(p.Rows) {
			break
		}
	}
	return d.pruneTransactions(ctx, p)
}

// pruneTransactions deletes those of which nothing is left, with their keys.
func (d *Desk) pruneTransactions(ctx context.Context, p Prune) error {
	for !p.DryRun {
		tag, err := d.pool.Exec(ctx, sqlDeleteTransactions, pg.Args{"keep": p.Keep, "n": p.Rows})
		if err != nil {
			return fmt.Errorf("prune transactions: %w", err)
		}
		if tag.RowsAffected() < int64(p.Rows) {
			break
		}
	}
	return nil
}

func collectIDs(rows pgx.Rows, err error) ([]event.ID, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (id event.ID, err error) {
		err = row.Scan((*[16]byte)(&id))
		return id, err
	})
}

func rawIDs(ids []event.ID) [][16]byte {
	out := make([][16]byte, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}
