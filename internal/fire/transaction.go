package fire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Together is events that are fired under one key: all of them or none.
type Together struct {
	Producer Producer
	Key      string
	Body     [32]byte // SHA-256 of the request
	Tenant   string   // that the caller is bound to
	Drafts   []*Draft
	// Prepare holds them until they are committed or rolled back.
	Prepare bool
	// Check, unless nil, is where the caller is asked what became of its own change.
	Check *Check
}

// Check is an address to ask, and the secret that the question is signed with.
type Check struct {
	URL    string
	Secret event.Secret
}

// Sealer keeps the secrets of checks unreadable in the database.
type Sealer interface {
	SealCheck(transaction event.ID, secret event.Secret) []byte
	OpenCheck(transaction event.ID, stored []byte) (event.Secret, error)
	// Newest reports whether a secret is stored as it would be today.
	Newest(stored []byte) bool
}

// Transaction is where events stand that were fired together.
type Transaction struct {
	ID        event.ID
	Prepared  bool // it was held, before it was decided
	State     event.TransactionState
	Tenant    string
	CreatedAt time.Time
	DecidedAt time.Time
	CheckURL  string
	Checks    int       // how often the caller was asked
	NextCheck time.Time // when it is asked next
	Checked   string    // what the last check came to
	Held      []*Draft  // until it is decided
	Receipts  []Receipt // once it is committed; an event that was pruned is left out
	Replayed  bool      // the key had been spent on it before, or it was decided so before

	producer Producer
	key      string
	events   []event.ID
	owes     []byte
	held     []byte
	secret   []byte
}

// MaxTogether bounds the events of one transaction.
const MaxTogether = 100

// Errors about transactions.
var (
	ErrNoTransaction = errors.New("there is no such transaction")
	// ErrDecided says that the transaction was decided the other way.
	ErrDecided = errors.New("the transaction was decided otherwise")
)

// PartError is what is wrong with one event of several.
type PartError struct {
	Part int
	Err  error
}

// Error names the event by its place.
func (e PartError) Error() string { return fmt.Sprintf("event %d: %v", e.Part, e.Err) }

// Unwrap is what is wrong.
func (e PartError) Unwrap() error { return e.Err }

// Transact fires events together, or holds them. The drafts must have passed Check. What
// may refuse them refuses them here: once they are held, a commit is never refused.
func (d *Desk) Transact(ctx context.Context, t *Together) (Transaction, error) {
	slips, err := d.holdTogether(ctx, t)
	if err != nil {
		// A repeat is answered as the first was, whatever was declared meanwhile.
		if known, errKnown := d.repeated(ctx, t, event.ID{}); errKnown == nil {
			return known, nil
		}
		return Transaction{}, err
	}
	id := event.NewID(time.Now())
	for _, s := range slips {
		s.spent = id
	}
	for range maxVotes {
		if x, known, err := d.agreedTogether(ctx, t, slips); known || err != nil {
			return x, err
		}
		x, err := d.transact(ctx, t, id, slips)
		if !errors.Is(err, errUnasked) {
			return x, err
		}
	}
	return Transaction{}, ErrBusy
}

// agreedTogether is agreed for events that are fired together.
func (d *Desk) agreedTogether(ctx context.Context, t *Together, slips []*slip) (x Transaction, known bool, err error) {
	if d.allAsked(slips) == nil {
		return x, false, nil
	}
	if x, err = d.repeated(ctx, t, event.ID{}); !errors.Is(err, ErrKeyInUse) {
		return x, true, err
	}
	return Transaction{}, false, d.vote(ctx, slips)
}

func (d *Desk) transact(ctx context.Context, t *Together, id event.ID, slips []*slip) (Transaction, error) {
	x, err := d.transactOnce(ctx, t, id, slips)
	if pg.Retryable(err) || pg.Unavailable(err) && !errors.Is(err, context.DeadlineExceeded) {
		// A first try that was committed after all is recognised by its id.
		x, err = d.transactOnce(ctx, t, id, slips)
	}
	if pg.LockTimeout(err) {
		err = ErrKeyInUse
	}
	return x, err
}

// holdTogether holds each event to its type, and the whole to the tenants' quotas.
func (d *Desk) holdTogether(ctx context.Context, t *Together) ([]*slip, error) {
	slips, debts := make([]*slip, len(t.Drafts)), 0
	for i, draft := range t.Drafts {
		draft.Producer, draft.Key, draft.Body = t.Producer, t.Key, t.Body
		kind, err := d.hold(ctx, draft)
		if err == nil {
			err = d.quota.full(draft.Tenant)
		}
		if err != nil {
			return nil, PartError{i, err}
		}
		slips[i] = newSlip(draft, kind)
		wanting, _ := d.book.Match(slips[i].matched)
		if draft.Suppress == nil {
			debts += len(wanting)
		}
		if debts > maxFanOut {
			return nil, ErrTooWide // also of what is held: its commit could not be written
		}
	}
	return slips, nil
}

var errSpent = errors.New("the key is spent")

func (d *Desk) transactOnce(ctx context.Context, t *Together, id event.ID, slips []*slip) (x Transaction, err error) {
	ctx, cancel := context.WithTimeout(ctx, transactTimeout)
	defer cancel()
	var plans []plan
	err = d.within(ctx, slips, func(tx pgx.Tx, c Calling) (err error) {
		x, plans, err = d.transactIn(ctx, tx, c, t, id, slips)
		return err
	})
	switch {
	case errors.Is(err, errSpent):
		return d.repeated(ctx, t, id)
	case err != nil:
		return Transaction{}, fmt.Errorf("fire events together: %w", err)
	}
	d.told(plans)
	return x, nil
}

// transactTimeout bounds one try to write a transaction, which may owe maxFanOut deliveries,
// and more where targets were declared between its prepare and its commit.
const transactTimeout = time.Minute

func (d *Desk) transactIn(ctx context.Context, tx pgx.Tx, c Calling, t *Together, id event.ID, slips []*slip) (x Transaction, plans []plan, err error) {
	var revision int64
	var won bool
	args := pg.Args{"producer": int32(t.Producer), "key": t.Key, "id": [16]byte(id), "hash": t.Body[:]}
	if err := tx.QueryRow(ctx, sqlSpendOnTransaction, args).Scan(&revision, &won); err != nil {
		return x, nil, fmt.Errorf("spend the key: %w", err)
	}
	if !won {
		return x, nil, errSpent
	}
	if err := d.book.Reach(ctx, revision); err != nil {
		return x, nil, err
	}
	x = Transaction{ID: id, State: event.Committed, Tenant: t.Tenant, producer: t.Producer, key: t.Key}
	if c != nil {
		if plans, err = d.callTogether(ctx, c, slips); err != nil {
			return x, nil, err
		}
	}
	if t.Prepare {
		if err := d.allAsked(slips); err != nil {
			return x, nil, err
		}
		x.State, x.Prepared, x.Held = event.Prepared, true, t.Drafts
		return x, nil, d.holdBack(ctx, tx, t, slips, &x)
	}
	if c == nil {
		if plans, _, err = d.planTogether(slips); err != nil {
			return x, nil, err
		}
	}
	if err := d.writeTogether(ctx, tx, plans, &x); err != nil {
		return x, nil, err
	}
	err = d.writeTransaction(ctx, tx, &x, nil)
	x.DecidedAt = x.CreatedAt
	return x, plans, err
}

// planTogether is plan for events that are refused together.
func (d *Desk) planTogether(slips []*slip) (plans []plan, revision int64, err error) {
	found, revision := d.match(slips)
	plans = make([]plan, len(slips))
	debts := 0
	for i, s := range slips {
		if err := d.heldTo(s, found[i].kind); err != nil {
			return nil, 0, PartError{i, err}
		}
		if len(s.unasked(found[i].targets)) > 0 {
			return nil, 0, errUnasked
		}
		plans[i] = planOf(s, &found[i])
		if debts += len(plans[i].debts); debts > maxFanOut {
			return nil, 0, ErrTooWide
		}
	}
	return plans, revision, nil
}

// writeTogether writes the events and what is owed for them, whose key was spent in this
// transaction of the database, or is decided in it.
func (d *Desk) writeTogether(ctx context.Context, tx pgx.Tx, plans []plan, x *Transaction) error {
	recorded, err := writeEvents(ctx, tx, plans)
	if err != nil {
		return err
	}
	owes := make([]json.RawMessage, len(plans))
	x.Receipts, x.events = make([]Receipt, len(plans)), make([]event.ID, len(plans))
	for i := range plans {
		p := &plans[i]
		x.events[i], owes[i] = p.id, encodeOwed(p.owed)
		p.written = recorded[p.id]
		x.Receipts[i] = Receipt{Event: p.fact(), Owed: p.owed}
	}
	x.owes, err = json.Marshal(owes)
	return err
}

// writeEvents writes the events of plans and what is owed for them.
func writeEvents(ctx context.Context, tx pgx.Tx, plans []plan) (map[event.ID]written, error) {
	var b pgx.Batch
	b.Queue(sqlWriteEvents, turn(plans).eventArgs())
	ledger.Owe(&b, debtsOf(plans))
	results := tx.SendBatch(ctx, &b)
	defer results.Close()
	recorded, err := readRecorded(results)
	if err != nil {
		return nil, err
	}
	if err := results.Close(); err != nil {
		return nil, fmt.Errorf("write events: %w", err)
	}
	return recorded, nil
}

func (d *Desk) writeTransaction(ctx context.Context, tx pgx.Tx, x *Transaction, checkAfter *time.Duration) error {
	args := pg.Args{
		"id": [16]byte(x.ID), "producer": int32(x.producer), "key": x.key, "tenant": pg.OrNull(x.Tenant), "state": string(x.State),
		"events": rawIDs(x.events), "owes": x.owes, "held": x.held, "check_url": pg.OrNull(x.CheckURL), "check_secret": x.secret, "check_after": checkAfter,
	}
	if err := tx.QueryRow(ctx, sqlWriteTransaction, args).Scan(&x.CreatedAt); err != nil {
		return fmt.Errorf("write the transaction: %w", err)
	}
	return nil
}

// told tells of what is newly owed, and counts it; and has told whoever is to be told
// after the commit.
func (d *Desk) told(plans []plan) {
	d.announce(plans)
	d.tellAfter(plans)
	d.tally(plans)
}

func (d *Desk) tally(plans []plan) {
	for _, p := range plans {
		d.quota.add(p.draft.Tenant, len(p.owed))
	}
}
