package fire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// heldDraft is how a draft is kept until its transaction is decided. Its id is the one that
// inline receivers were told, which may have written it down; what was held by a version
// that kept none gets one when it is committed.
type heldDraft struct {
	ID          []byte      `json:"id,omitempty"`
	Type        string      `json:"type"`
	Data        []byte      `json:"data"`
	Facts       event.Facts `json:"facts"`
	TraceParent string      `json:"trace,omitempty"`
	Bound       bool        `json:"bound,omitempty"`
}

func encodeHeld(slips []*slip) ([]byte, error) {
	held := make([]heldDraft, len(slips))
	for i, s := range slips {
		d := s.draft
		held[i] = heldDraft{s.id[:], d.Type, d.Data, d.Facts, d.TraceParent, d.Bound}
	}
	encoded, err := json.Marshal(held)
	if err != nil {
		return nil, fmt.Errorf("encode what is held: %w", err)
	}
	return encoded, nil
}

func (x *Transaction) decodeHeld() ([]*Draft, error) {
	if x.held == nil {
		return nil, nil
	}
	var held []heldDraft
	if err := json.Unmarshal(x.held, &held); err != nil {
		return nil, fmt.Errorf("read what is held: %w", err)
	}
	drafts := make([]*Draft, len(held))
	for i, h := range held {
		var id event.ID
		copy(id[:], h.ID)
		drafts[i] = &Draft{id: id, Producer: x.producer, Key: x.key, Type: h.Type, Data: h.Data, Facts: h.Facts, TraceParent: h.TraceParent, Bound: h.Bound}
	}
	return drafts, nil
}

// holdBack writes a transaction that is prepared.
func (d *Desk) holdBack(ctx context.Context, tx pgx.Tx, t *Together, slips []*slip, x *Transaction) (err error) {
	if x.held, err = encodeHeld(slips); err != nil {
		return err
	}
	var after *time.Duration
	if t.Check != nil {
		x.CheckURL, x.secret = t.Check.URL, d.sealer.SealCheck(x.ID, t.Check.Secret)
		first := checkFirst
		after = &first
	}
	if err := d.writeTransaction(ctx, tx, x, after); err != nil {
		return err
	}
	if after != nil {
		x.NextCheck = x.CreatedAt.Add(*after)
	}
	return nil
}

// Commit makes events of what is held, once: whatever else was declared since, it is never
// refused. Where it was committed before, it answers the same; where it was rolled back,
// [ErrDecided]. tenant, unless "", is whose it must be.
func (d *Desk) Commit(ctx context.Context, id event.ID, tenant string) (Transaction, error) {
	return d.decide(ctx, id, tenant, event.Committed)
}

// Rollback forgets what is held. Where it was rolled back before, it answers the same;
// where it was committed, [ErrDecided].
func (d *Desk) Rollback(ctx context.Context, id event.ID, tenant string) (Transaction, error) {
	return d.decide(ctx, id, tenant, event.RolledBack)
}

func (d *Desk) decide(ctx context.Context, id event.ID, tenant string, as event.TransactionState) (x Transaction, err error) {
	ctx, cancel := context.WithTimeout(ctx, transactTimeout)
	defer cancel()
	var plans []plan
	err = d.fenced(ctx, func(tx pgx.Tx) (err error) {
		x, plans, err = d.decideIn(ctx, tx, id, tenant, as)
		return err
	})
	switch {
	case errors.Is(err, ErrDecided):
		d.log.WarnContext(ctx, "a transaction was to be decided otherwise than it had been", "transaction", id.Text(event.TxPrefix), "is", x.State, "asked", as)
		return x, err
	case err != nil:
		return Transaction{}, fmt.Errorf("decide a transaction: %w", err)
	}
	d.told(plans)
	if x.Replayed && x.State == event.Committed {
		return d.filled(ctx, x)
	}
	return x, nil
}

func (d *Desk) decideIn(ctx context.Context, tx pgx.Tx, id event.ID, tenant string, as event.TransactionState) (x Transaction, plans []plan, err error) {
	x, revision, err := scanTransaction(tx.QueryRow(ctx, sqlLockTransaction, pg.Args{"id": [16]byte(id)}))
	if err == nil && tenant != "" && x.Tenant != tenant {
		err = ErrNoTransaction
	}
	switch {
	case err != nil:
		return x, nil, err
	case x.State == as:
		x.Replayed = true
		return x, nil, nil
	case x.State.Decided():
		return x, nil, ErrDecided
	case as == event.Committed:
		plans, err = d.release(ctx, tx, &x, revision)
	}
	if err != nil {
		return x, nil, err
	}
	x.State, x.Held, x.NextCheck = as, nil, time.Time{}
	args := pg.Args{"id": [16]byte(id), "state": string(as), "events": rawIDs(x.events), "owes": x.owes}
	if err := tx.QueryRow(ctx, sqlDecideTransaction, args).Scan(&x.DecidedAt); err != nil {
		return x, nil, fmt.Errorf("decide the transaction: %w", err)
	}
	return x, plans, nil
}

// release makes events of what is held. What refuses fires refused these when they were
// prepared, or not at all.
func (d *Desk) release(ctx context.Context, tx pgx.Tx, x *Transaction, revision int64) ([]plan, error) {
	if err := d.book.Reach(ctx, revision); err != nil {
		return nil, err
	}
	slips := make([]*slip, len(x.Held))
	for i, draft := range x.Held {
		if draft.OccurredAt.IsZero() {
			draft.OccurredAt = x.CreatedAt
		}
		slips[i] = newSlip(draft, nil)
		slips[i].spent = x.ID
	}
	found, _ := d.match(slips)
	plans := make([]plan, len(slips))
	for i, s := range slips {
		plans[i] = planOf(s, &found[i])
	}
	return plans, d.writeTogether(ctx, tx, plans, x)
}
