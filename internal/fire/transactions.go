package fire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

func scanTransaction(row pgx.Row) (x Transaction, revision int64, err error) {
	var decided, next *time.Time
	var events [][16]byte
	err = row.Scan((*[16]byte)(&x.ID), (*int32)(&x.producer), &x.key, &x.Tenant, &x.Prepared, &x.State, &x.CreatedAt, &decided, &events, &x.owes, &x.held,
		&x.CheckURL, &x.secret, &x.Checks, &next, &x.Checked, &revision)
	if errors.Is(err, pgx.ErrNoRows) {
		return x, 0, ErrNoTransaction
	}
	if err != nil {
		return x, 0, fmt.Errorf("read a transaction: %w", err)
	}
	x.DecidedAt, x.NextCheck = pg.OrZero(decided), pg.OrZero(next)
	for _, id := range events {
		x.events = append(x.events, id)
	}
	x.Held, err = x.decodeHeld()
	return x, revision, err
}

// FindTransaction is one transaction with its events, or [ErrNoTransaction]. tenant, unless
// "", is whose it must be.
func (d *Desk) FindTransaction(ctx context.Context, id event.ID, tenant string) (Transaction, error) {
	x, _, err := scanTransaction(d.pool.QueryRow(ctx, sqlFindTransaction, pg.Args{"id": [16]byte(id), "producer": nil, "key": nil}))
	if err == nil && tenant != "" && x.Tenant != tenant {
		err = ErrNoTransaction
	}
	if err != nil {
		return Transaction{}, err
	}
	return d.filled(ctx, x)
}

// filled is a transaction with what its commit was answered.
func (d *Desk) filled(ctx context.Context, x Transaction) (Transaction, error) {
	if x.State != event.Committed {
		return x, nil
	}
	rows, err := d.pool.Query(ctx, sqlEventsOf, pg.Args{"ids": rawIDs(x.events)})
	if err != nil {
		return x, fmt.Errorf("read the events of a transaction: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return x, fmt.Errorf("read the events of a transaction: %w", err)
	}
	byID := make(map[event.ID]*event.Event, len(list))
	for i := range list {
		byID[list[i].ID] = &list[i]
	}
	var owes []json.RawMessage
	if err := json.Unmarshal(x.owes, &owes); err != nil || len(owes) != len(x.events) {
		return x, fmt.Errorf("read what a transaction owed: %w", err)
	}
	x.Receipts = make([]Receipt, 0, len(list))
	for i, id := range x.events {
		e := byID[id]
		if e == nil {
			continue // it was pruned
		}
		owed, err := decodeOwed(owes[i])
		if err != nil {
			return x, err
		}
		x.Receipts = append(x.Receipts, Receipt{Event: *e, Owed: owed})
	}
	return x, nil
}

// TransactionFilter narrows a list. A zero field does not.
type TransactionFilter struct {
	State  event.TransactionState
	Tenant string
	Older  time.Duration // created longer ago than that
	Below  event.ID
	Limit  int
}

// Transactions are those that meet the filter, newest first, without their events.
func (d *Desk) Transactions(ctx context.Context, f TransactionFilter) ([]Transaction, error) {
	args := pg.Args{
		"state": pg.OrNull(string(f.State)), "tenant": pg.OrNull(f.Tenant), "older": pg.OrNull(f.Older), "below": pg.OrNull([16]byte(f.Below)), "limit": f.Limit,
	}
	rows, err := d.pool.Query(ctx, sqlListTransactions, pgx.QueryExecModeCacheDescribe, args)
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Transaction, error) {
		x, _, err := scanTransaction(row)
		return x, err
	})
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	return list, nil
}

// repeated is the answer to a request whose key had been spent: on the very same, or on
// something else, which is [ErrKeyReused]. own is the id under which this caller may have
// spent it itself.
func (d *Desk) repeated(ctx context.Context, t *Together, own event.ID) (Transaction, error) {
	var x Transaction
	var hash []byte
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) (err error) {
		key := pg.Args{"id": nil, "producer": int32(t.Producer), "key": t.Key}
		if err := tx.QueryRow(ctx, sqlTouchKey, key).Scan(&hash); err != nil {
			return fmt.Errorf("touch the key: %w", err)
		}
		x, _, err = scanTransaction(tx.QueryRow(ctx, sqlFindTransaction, key))
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Transaction{}, ErrKeyInUse // whoever held it rolled back meanwhile
	case errors.Is(err, ErrNoTransaction):
		return Transaction{}, ErrKeyReused // on an event
	case err != nil:
		return Transaction{}, err
	}
	if x, err = d.filled(ctx, x); err != nil {
		return Transaction{}, err
	}
	if !bytes.Equal(hash, t.Body[:]) && !t.same(&x) {
		return Transaction{}, ErrKeyReused
	}
	x.Replayed = x.ID != own
	return x, nil
}

// same reports whether a request tells what a transaction was made of, in other bytes. Of
// one that was rolled back nothing is left to compare.
func (t *Together) same(x *Transaction) bool {
	if t.Prepare != x.Prepared || t.Check != nil && t.Check.URL != x.CheckURL {
		return false
	}
	stored := x.Receipts
	for _, h := range x.Held {
		stored = append(stored, Receipt{Event: event.Event{Type: h.Type, Data: h.Data, Facts: h.Facts}})
	}
	return len(stored) == len(t.Drafts) && t.each(func(i int, d *Draft) bool {
		told := stored[i].Event
		if x.Prepared && d.OccurredAt.IsZero() && told.OccurredAt.Equal(x.CreatedAt) {
			told.OccurredAt = time.Time{} // as it was given none
		}
		return sameFact(d, [32]byte{}, &told)
	})
}

func (t *Together) each(holds func(i int, d *Draft) bool) bool {
	for i, d := range t.Drafts {
		if !holds(i, d) {
			return false
		}
	}
	return true
}

// OpenTransactions are those that are not decided.
type OpenTransactions struct {
	Prepared      int     `json:"prepared"`
	InDoubt       int     `json:"in_doubt"`
	OldestSeconds float64 `json:"oldest_seconds"`
}

// CountTransactions counts those that are not decided.
func (d *Desk) CountTransactions(ctx context.Context) (n OpenTransactions, err error) {
	if err := d.pool.QueryRow(ctx, sqlCountTransactions).Scan(&n.Prepared, &n.InDoubt, &n.OldestSeconds); err != nil {
		return n, fmt.Errorf("count transactions: %w", err)
	}
	return n, nil
}
