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

// Times of matching what is fired in SQL. A notification is quicker than the ticks.
const (
	matchEvery = time.Second
	matchBatch = 500              // events, and no more than maxGroupDebts deliveries if they are several
	matchSpell = 2 * time.Second  // after which no further event is asked about
	matchTime  = time.Minute      // for one transaction
	matchRest  = 15 * time.Second // at most, while the database is away
)

// LookForFired has MatchFired look at once. It never blocks.
func (d *Desk) LookForFired() {
	select {
	case d.look <- struct{}{}:
	default:
	}
}

// MatchFired matches events that were fired in SQL, until the context ends, with what
// matches every other fire. Several processes share the work.
func (d *Desk) MatchFired(ctx context.Context) {
	pause := matchEvery
	for {
		err := d.MatchAll(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && pause == matchEvery:
			d.log.ErrorContext(ctx, "events that were fired in SQL could not be matched; trying again", "err", err)
			pause *= 2
		case err != nil:
			pause = min(pause*2, matchRest)
		default:
			pause = matchEvery
		}
		late := time.NewTimer(pause)
		select {
		case <-late.C:
		case <-d.look:
			late.Stop()
		case <-ctx.Done():
			late.Stop()
			return
		}
	}
}

// MatchAll matches what waits for it.
func (d *Desk) MatchAll(ctx context.Context) error {
	for {
		more, err := d.matchSome(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// matchSome matches some of what waits, and answers whether there may be more.
func (d *Desk) matchSome(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, matchTime)
	defer cancel()
	var plans []plan
	var refused map[event.ID]string
	err = d.fenced(ctx, func(tx pgx.Tx) (err error) {
		more, plans, refused, err = d.matchIn(ctx, tx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("match events that were fired in SQL: %w", err)
	}
	for id, why := range refused {
		d.log.ErrorContext(ctx, "an event that was fired in SQL is owed to nobody, as a POST of it would have been refused; replay it to have it delivered all the same", "event", id.Text(event.EventPrefix), "why", why)
	}
	d.committed(targetsOf(plans)) // eager or not: it was fired elsewhere
	d.tellAfter(plans)
	d.tally(plans)
	return more, nil
}

func (d *Desk) matchIn(ctx context.Context, tx pgx.Tx) (more bool, plans []plan, refused map[event.ID]string, err error) {
	slips, revision, err := takeUnmatched(ctx, tx)
	if err != nil || len(slips) == 0 {
		return false, nil, nil, err
	}
	if err := d.book.Reach(ctx, revision); err != nil {
		return false, nil, nil, err
	}
	plans, refused = d.planFired(slips)
	more = len(slips) == matchBatch || len(plans) < len(slips)
	return more, plans, refused, endMatching(ctx, tx, plans, refused)
}

// planFired is what the first of the slips come to: as many as one transaction can write
// in good time. What is over waits for the next, so that events which many want, or which
// are asked of many filters, do not hold up each other for good.
func (d *Desk) planFired(slips []*slip) (plans []plan, refused map[event.ID]string) {
	refused = map[event.ID]string{}
	debts, began := 0, time.Now()
	for i, s := range slips {
		if i > 0 && time.Since(began) > matchSpell {
			break
		}
		found, _ := d.match(slips[i : i+1])
		p := planOf(s, &found[0])
		for n := range p.debts {
			p.debts[n].Due = max(p.debts[n].Due-s.age, 0) // it counts from when the event was recorded
		}
		if err := d.judge(&p, &found[0]); err != nil {
			refused[s.id] = err.Error()
			p.debts, p.owed, p.after = nil, nil, nil
		}
		if debts += len(p.debts); i > 0 && debts > maxGroupDebts {
			break
		}
		plans = append(plans, p)
	}
	return plans, refused
}

// judge is why an event would have been refused, had it been POSTed. Inline receivers have
// had their say where it was fired.
func (d *Desk) judge(p *plan, m *matched) error {
	if err := p.draft.Check().Err(); err != nil {
		return err
	}
	if err := d.keeps(m.kind, p.draft); err != nil {
		return err
	}
	if len(p.debts) > maxFanOut {
		return ErrTooWide
	}
	return nil
}

func takeUnmatched(ctx context.Context, tx pgx.Tx) (slips []*slip, revision int64, err error) {
	rows, err := tx.Query(ctx, sqlTakeUnmatched, pg.Args{"n": matchBatch})
	if err != nil {
		return nil, 0, fmt.Errorf("take unmatched events: %w", err)
	}
	slips, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*slip, error) {
		var e event.Event
		var r record
		var draft Draft
		var age time.Duration
		if err := row.Scan(append(append([]any{(*[16]byte)(&e.ID)}, r.fields()...), (*int32)(&draft.Producer), &draft.Key, &age, &revision)...); err != nil {
			return nil, err
		}
		err := r.fill(&e)
		draft.Type, draft.Data, draft.Facts, draft.TraceParent = e.Type, e.Data, e.Facts, e.TraceParent
		s := newSlip(&draft, nil)
		s.id, s.spent, s.age, s.written = e.ID, e.ID, age, written{e.RecordedAt, e.CorrelationID}
		return s, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("take unmatched events: %w", err)
	}
	return slips, revision, nil
}

func endMatching(ctx context.Context, tx pgx.Tx, plans []plan, refused map[event.ID]string) error {
	c := turn(plans)
	why := make([]*string, len(plans))
	for i, p := range plans {
		why[i] = pg.OrNull(refused[p.id])
	}
	var b pgx.Batch
	ledger.Owe(&b, debtsOf(plans))
	b.Queue(sqlEndMatching, pg.Args{
		"ids": c.ids, "producers": c.producers, "keys": c.keys, "owes": c.owes, "keeps": c.keeps, "forget": c.forget, "refused": why,
	})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("owe events that were fired in SQL: %w", err)
	}
	return nil
}

// Unmatched are events that were fired in SQL and are owed to nobody yet.
type Unmatched struct {
	Waiting int // to be matched
	Refused int // by a rule that SQL does not know
}

// CountUnmatched counts them.
func (d *Desk) CountUnmatched(ctx context.Context) (n Unmatched, err error) {
	if err := d.pool.QueryRow(ctx, sqlCountUnmatched).Scan(&n.Waiting, &n.Refused); err != nil {
		return n, fmt.Errorf("count unmatched events: %w", err)
	}
	return n, nil
}
