package fire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// statementTimeout ends a write in the server before its caller is told that it
// failed, so that a fire that was answered 503 does not commit afterwards.
const statementTimeout = 1500 * time.Millisecond

// widthTime is how much longer a write may take for being wide.
func widthTime(plans []plan) time.Duration {
	debts := 0
	for _, p := range plans {
		debts += len(p.debts)
	}
	return time.Duration(debts) * 300 * time.Microsecond
}

// enter begins a write of plans, by so many statements: plans of statements are pinned, it is
// bounded, and it takes what fires take against removals.
func enter(b *pgx.Batch, plans []plan, lockWait time.Duration) {
	ledger.Pin(b, lockWait)
	b.Queue(`SELECT set_config('statement_timeout', @ms, true)`, pg.Args{"ms": fmt.Sprint((statementTimeout + widthTime(plans)).Milliseconds())})
	b.Queue(pg.FenceSharedSQL)
}

const entering = 3

// commit writes the plans in one round trip and one transaction: keys, then events and
// debts for the keys that were won. It answers the plans, those that lost their key
// included, unless the registry has moved on: then it writes nothing and answers the
// registry's revision.
func (d *Desk) commit(ctx context.Context, plans []plan, revision int64, lockWait time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout+widthTime(plans))
	defer cancel()
	var b pgx.Batch
	enter(&b, plans, lockWait)
	c := turn(plans)
	b.Queue(sqlSpend, c.keyArgs(revision))
	b.Queue(sqlWriteEvents, c.eventArgs())
	ledger.Owe(&b, debtsOf(plans))

	won := make(map[event.ID]bool, len(plans))
	results := d.pool.SendBatch(ctx, &b)
	defer results.Close()
	for range entering {
		if _, err := results.Exec(); err != nil {
			return 0, fmt.Errorf("pin plans: %w", err)
		}
	}
	current, err := readWon(results, won)
	if err != nil {
		return 0, err
	}
	recorded, err := readRecorded(results)
	if err != nil {
		return 0, err
	}
	// Closing reads the debts' result and the end of the transaction: the commit.
	if err := results.Close(); err != nil {
		return 0, fmt.Errorf("write events: %w", err)
	}
	if current != revision {
		return current, nil
	}
	winners, losers := part(plans, won)
	d.stored(winners, recorded)
	if len(losers) == 0 {
		return current, nil
	}
	return current, d.replay(ctx, losers)
}

// stored answers plans that were committed, and has everybody told of them.
func (d *Desk) stored(plans []plan, recorded map[event.ID]written) {
	for _, p := range plans {
		p.written = recorded[p.id]
	}
	d.announce(plans)
	d.tellAfter(plans)
	for _, p := range plans {
		p.answer(Receipt{Event: p.fact(), Owed: p.owed}, nil)
	}
}

func readWon(results pgx.BatchResults, won map[event.ID]bool) (revision int64, err error) {
	rows, err := results.Query()
	if err != nil {
		return 0, fmt.Errorf("spend keys: %w", err)
	}
	defer rows.Close()
	var id pgtype.UUID
	var rev pgtype.Int8
	for rows.Next() {
		if err := rows.Scan(&id, &rev); err != nil {
			return 0, fmt.Errorf("spend keys: %w", err)
		}
		if id.Valid {
			won[id.Bytes] = true
		}
		if rev.Valid {
			revision = rev.Int64
		}
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("spend keys: %w", err)
	}
	return revision, nil
}

// written is what the database decided about an event.
type written struct {
	at    time.Time
	chain string
}

func readRecorded(results pgx.BatchResults) (map[event.ID]written, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, fmt.Errorf("write events: %w", err)
	}
	defer rows.Close()
	recorded := map[event.ID]written{}
	var id event.ID
	var w written
	var chain pgtype.Text
	for rows.Next() {
		if err := rows.Scan((*[16]byte)(&id), &w.at, &chain); err != nil {
			return nil, fmt.Errorf("write events: %w", err)
		}
		w.chain = chain.String
		recorded[id] = w
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("write events: %w", err)
	}
	return recorded, nil
}

func part(plans []plan, won map[event.ID]bool) (winners, losers []plan) {
	for _, p := range plans {
		if won[p.id] {
			winners = append(winners, p)
		} else {
			losers = append(losers, p)
		}
	}
	return winners, losers
}

func debtsOf(plans []plan) []ledger.Debt {
	var debts []ledger.Debt
	for _, p := range plans {
		debts = append(debts, p.debts...)
	}
	return debts
}

// fact is the event that a draft became, or is about to.
func (s *slip) fact() event.Event {
	e := event.Event{ID: s.id, Type: s.draft.Type, Data: s.draft.Data, Facts: s.draft.Facts, RecordedAt: s.written.at, TraceParent: s.draft.TraceParent}
	if s.written.chain != "" { // the draft's own, or its cause's, which only the database knows
		e.CorrelationID = s.written.chain
	}
	return e
}

// replay answers plans whose keys had been spent. A key that nobody holds any more
// leaves its plan unanswered, to be written again.
func (d *Desk) replay(ctx context.Context, losers []plan) error {
	spent, err := d.readSpent(ctx, losers)
	if err != nil {
		return err
	}
	for i, p := range losers {
		s, ok := spent[i]
		switch {
		case !ok:
		case s.event.ID == p.id:
			// A try before this one was committed although its answer was lost. What that
			// owes has other ids than the plan at hand, so none of it is offered as eager.
			p.written = written{s.event.RecordedAt, s.event.CorrelationID}
			d.committed(targetsOf([]plan{p}))
			d.tellAfter([]plan{p})
			p.answer(Receipt{Event: s.event, Owed: s.owed}, nil)
		case s.pruned && p.draft.Body != s.body:
			// Nothing is left to compare but the hash of the request.
			p.answer(Receipt{}, ErrKeyReused)
		case s.pruned:
			s.tell(p.draft)
			p.answer(Receipt{Event: s.event, Owed: s.owed, Replayed: true}, nil)
		case !sameFact(p.draft, s.body, &s.event):
			p.answer(Receipt{}, ErrKeyReused)
		default:
			p.answer(Receipt{Event: s.event, Owed: s.owed, Replayed: true}, nil)
		}
	}
	return nil
}

// columns are plans turned on their side: one array a column. One of what most events do not
// have is nothing at all where no row of it has a value: unnest fills shorter columns up with
// NULLs.
type columns struct {
	producers          []int32
	ids, spent         [][16]byte
	hashes, owes, data [][]byte
	keys, types        []string

	tenants, subjects, sources, correlations, causations, suppressed, traces []*string
	actors, metadata, forget                                                 []*string
	occurred                                                                 []*time.Time
	causes                                                                   []*[16]byte
	bound                                                                    []*bool
	keeps                                                                    []*time.Duration
}

func turn(plans []plan) *columns {
	n := len(plans)
	c := &columns{
		producers: make([]int32, n), ids: make([][16]byte, n), spent: make([][16]byte, n), hashes: make([][]byte, n), owes: make([][]byte, n),
		data: make([][]byte, n), keys: make([]string, n), types: make([]string, n),
	}
	for i, p := range plans {
		f := p.draft
		c.producers[i], c.ids[i], c.spent[i] = int32(f.Producer), p.id, p.spent
		c.hashes[i], c.owes[i], c.data[i] = f.Body[:], encodeOwed(p.owed), f.Data
		c.keys[i], c.types[i] = f.Key, f.Type
		reason := ""
		if f.Suppress != nil {
			reason = f.Suppress.Reason
		}
		at := row{i, n}
		put(&c.tenants, at, pg.OrNull(f.Tenant))
		put(&c.subjects, at, pg.OrNull(f.Subject))
		put(&c.sources, at, pg.OrNull(f.Source))
		put(&c.correlations, at, pg.OrNull(f.CorrelationID))
		put(&c.causations, at, pg.OrNull(f.CausationID))
		put(&c.causes, at, causeOf(f.CausationID))
		put(&c.traces, at, pg.OrNull(f.TraceParent))
		put(&c.bound, at, pg.OrNull(f.Bound))
		put(&c.keeps, at, pg.OrNull(p.retention.Window))
		put(&c.forget, at, pg.OrNull(string(p.retention.When)))
		put(&c.actors, at, jsonOrNull(f.Actor, f.Actor == nil))
		put(&c.metadata, at, jsonOrNull(f.Metadata, len(f.Metadata) == 0))
		put(&c.occurred, at, pg.OrNull(f.OccurredAt))
		put(&c.suppressed, at, pg.OrNull(reason))
	}
	return c
}

// row is one of so many.
type row struct{ i, of int }

// put puts a value into a column, which begins to be one with the first.
func put[T any](column *[]*T, at row, v *T) {
	if v == nil {
		return
	}
	if *column == nil {
		*column = make([]*T, at.of)
	}
	(*column)[at.i] = v
}

func (c *columns) keyArgs(revision int64) pg.Args {
	return pg.Args{"producers": c.producers, "keys": c.keys, "ids": c.ids, "hashes": c.hashes, "owes": c.owes, "revision": revision}
}

func (c *columns) eventArgs() pg.Args {
	return pg.Args{
		"ids": c.ids, "types": c.types, "producers": c.producers, "keys": c.keys, "data": c.data, "spent": c.spent, "bound": c.bound,
		"tenants": c.tenants, "subjects": c.subjects, "sources": c.sources, "occurred": c.occurred, "correlations": c.correlations,
		"causations": c.causations, "causes": c.causes, "keeps": c.keeps, "forget": c.forget, "actors": c.actors, "metadata": c.metadata,
		"suppressed": c.suppressed, "traces": c.traces,
	}
}

// causeOf is the event that a causation names, where it is one of ours.
func causeOf(causation string) *[16]byte {
	if causation == "" {
		return nil
	}
	id, err := event.ParseID(event.EventPrefix, causation)
	if err != nil {
		return nil
	}
	return (*[16]byte)(&id)
}

func jsonOrNull(v any, none bool) *string {
	if none {
		return nil
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(errors.Join(errors.New("fire: strings always encode"), err))
	}
	s := string(encoded)
	return &s
}
