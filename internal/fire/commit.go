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
	for rows.Next() {
		var id *[16]byte
		var rev *int64
		if err := rows.Scan(&id, &rev); err != nil {
			return 0, fmt.Errorf("spend keys: %w", err)
		}
		if id != nil {
			won[*id] = true
		}
		if rev != nil {
			revision = *rev
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
	for rows.Next() {
		var id event.ID
		var w written
		var chain *string
		if err := rows.Scan((*[16]byte)(&id), &w.at, &chain); err != nil {
			return nil, fmt.Errorf("write events: %w", err)
		}
		w.chain = pg.OrZero(chain)
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

// columns are plans turned on their side: one array a column.
type columns struct {
	producers                                                                []int32
	ids, spent                                                               [][16]byte
	hashes, owes, data                                                       [][]byte
	keys, types                                                              []string
	tenants, subjects, sources, correlations, causations, suppressed, traces []*string
	actors, metadata                                                         []*string
	occurred                                                                 []*time.Time
	causes                                                                   []*[16]byte
	bound                                                                    []*bool
	keeps                                                                    []*time.Duration
	forget                                                                   []*string
}

func turn(plans []plan) *columns {
	c := &columns{}
	for _, p := range plans {
		f := p.draft
		c.producers = append(c.producers, int32(f.Producer))
		c.ids = append(c.ids, p.id)
		c.spent = append(c.spent, p.spent)
		c.hashes = append(c.hashes, f.Body[:])
		c.owes = append(c.owes, encodeOwed(p.owed))
		c.data = append(c.data, f.Data)
		c.keys = append(c.keys, f.Key)
		c.types = append(c.types, f.Type)
		c.tenants = append(c.tenants, pg.OrNull(f.Tenant))
		c.subjects = append(c.subjects, pg.OrNull(f.Subject))
		c.sources = append(c.sources, pg.OrNull(f.Source))
		c.correlations = append(c.correlations, pg.OrNull(f.CorrelationID))
		c.causations = append(c.causations, pg.OrNull(f.CausationID))
		c.traces = append(c.traces, pg.OrNull(f.TraceParent))
		c.causes = append(c.causes, causeOf(f.CausationID))
		c.bound = append(c.bound, pg.OrNull(f.Bound))
		c.keeps = append(c.keeps, pg.OrNull(p.retention.Window))
		c.forget = append(c.forget, pg.OrNull(string(p.retention.When)))
		c.actors = append(c.actors, jsonOrNull(f.Actor, f.Actor == nil))
		c.metadata = append(c.metadata, jsonOrNull(f.Metadata, len(f.Metadata) == 0))
		c.occurred = append(c.occurred, pg.OrNull(f.OccurredAt))
		reason := ""
		if f.Suppress != nil {
			reason = f.Suppress.Reason
		}
		c.suppressed = append(c.suppressed, pg.OrNull(reason))
	}
	return c
}

// unlessNone is a column, or nothing where no row of it has a value: unnest fills shorter
// columns up with NULLs, and most events have few of the optional facts.
func unlessNone[T any](column []*T) []*T {
	for _, v := range column {
		if v != nil {
			return column
		}
	}
	return nil
}

func (c *columns) keyArgs(revision int64) pg.Args {
	return pg.Args{"producers": c.producers, "keys": c.keys, "ids": c.ids, "hashes": c.hashes, "owes": c.owes, "revision": revision}
}

func (c *columns) eventArgs() pg.Args {
	return pg.Args{
		"ids": c.ids, "types": c.types, "producers": c.producers, "keys": c.keys, "data": c.data, "spent": c.spent, "bound": unlessNone(c.bound),
		"tenants": unlessNone(c.tenants), "subjects": unlessNone(c.subjects), "sources": unlessNone(c.sources), "occurred": unlessNone(c.occurred),
		"correlations": unlessNone(c.correlations), "causations": unlessNone(c.causations), "causes": unlessNone(c.causes),
		"keeps": unlessNone(c.keeps), "forget": unlessNone(c.forget), "actors": unlessNone(c.actors), "metadata": unlessNone(c.metadata),
		"suppressed": unlessNone(c.suppressed), "traces": unlessNone(c.traces),
	}
}

// causeOf is the event that a causation names, where it is one of ours.
func causeOf(causation string) *[16]byte {
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
