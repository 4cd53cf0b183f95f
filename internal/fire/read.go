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

// ErrNotFound says that there is no event of that id.
var ErrNotFound = errors.New("there is no such event")

// spent is what a key was spent on.
type spent struct {
	event event.Event
	body  [32]byte
	owed  []Owed
	// pruned says that the event is gone, and only its id and time are known.
	pruned bool
}

// tell fills a pruned event in from the draft that repeats it.
func (s *spent) tell(d *Draft) {
	if s.event.RecordedAt.IsZero() {
		s.event.RecordedAt = s.event.ID.Time()
	}
	s.event.Type, s.event.Data, s.event.Facts = d.Type, d.Data, d.Facts
}

// readSpent is, by the plan's place, what each plan's key was spent on. It must run
// after the statement that lost the keys has returned: a statement does not see what
// was committed while it waited.
func (d *Desk) readSpent(ctx context.Context, plans []plan) (map[int]spent, error) {
	producers, keys := make([]int32, len(plans)), make([]string, len(plans))
	for i, p := range plans {
		producers[i], keys[i] = int32(p.draft.Producer), p.draft.Key
	}
	var b pgx.Batch
	ledger.Pin(&b, singleLockWait)
	b.Queue(sqlReadSpent, pg.Args{"producers": producers, "keys": keys})
	results := d.pool.SendBatch(ctx, &b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return nil, fmt.Errorf("pin plans: %w", err)
	}
	rows, err := results.Query()
	if err != nil {
		return nil, fmt.Errorf("read spent keys: %w", err)
	}
	defer rows.Close()
	found := make(map[int]spent, len(plans))
	for rows.Next() {
		n, s, err := scanSpent(rows)
		if err != nil {
			return nil, fmt.Errorf("read spent keys: %w", err)
		}
		found[n-1] = s
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read spent keys: %w", err)
	}
	rows.Close()
	// The answer may be given only after this commit.
	if err := results.Close(); err != nil {
		return nil, fmt.Errorf("read spent keys: %w", err)
	}
	return found, nil
}

func scanSpent(rows pgx.Rows) (n int, s spent, err error) {
	var place int64
	var hash, owes []byte
	var r record
	if err := rows.Scan(append([]any{&place, (*[16]byte)(&s.event.ID), &hash, &owes}, r.fields()...)...); err != nil {
		return 0, s, err
	}
	copy(s.body[:], hash)
	s.pruned = r.kind == ""
	if err := r.fill(&s.event); err != nil {
		return 0, s, err
	}
	s.owed, err = decodeOwed(owes)
	return int(place), s, err
}

// record is an event's row but for its id.
type record struct {
	recordedAt                                               *time.Time
	kind                                                     string
	tenant, subject, source                                  *string
	occurredAt                                               *time.Time
	correlation, causation, actor, metadata, suppressed, trc *string
	data                                                     []byte
}

func (r *record) fields() []any {
	return []any{&r.recordedAt, &r.kind, &r.tenant, &r.subject, &r.source, &r.occurredAt, &r.correlation, &r.causation,
		&r.actor, &r.metadata, &r.suppressed, &r.trc, &r.data}
}

func (r *record) fill(e *event.Event) error {
	e.Type, e.Data, e.RecordedAt, e.TraceParent = r.kind, r.data, pg.OrZero(r.recordedAt), pg.OrZero(r.trc)
	e.Tenant, e.Subject, e.Source = pg.OrZero(r.tenant), pg.OrZero(r.subject), pg.OrZero(r.source)
	e.CorrelationID, e.CausationID = pg.OrZero(r.correlation), pg.OrZero(r.causation)
	if r.occurredAt != nil {
		e.OccurredAt = *r.occurredAt
	}
	if r.suppressed != nil {
		e.Suppress = &event.Suppression{Reason: *r.suppressed}
	}
	if r.actor != nil {
		if err := json.Unmarshal([]byte(*r.actor), &e.Actor); err != nil {
			return fmt.Errorf("read the actor: %w", err)
		}
	}
	if r.metadata != nil {
		if err := json.Unmarshal([]byte(*r.metadata), &e.Metadata); err != nil {
			return fmt.Errorf("read the metadata: %w", err)
		}
	}
	return nil
}

// Find is one event, or [ErrNotFound].
func (d *Desk) Find(ctx context.Context, id event.ID) (event.Event, error) {
	rows, err := d.pool.Query(ctx, sqlFindEvent, pg.Args{"id": [16]byte(id)})
	if err != nil {
		return event.Event{}, fmt.Errorf("find event: %w", err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEvent)
	if errors.Is(err, pgx.ErrNoRows) {
		return event.Event{}, ErrNotFound
	}
	if err != nil {
		return event.Event{}, fmt.Errorf("find event: %w", err)
	}
	return e, nil
}

// FindAll is the events of those ids, by id; one that is not there is missing.
func (d *Desk) FindAll(ctx context.Context, ids []event.ID) (map[event.ID]event.Event, error) {
	wanted := make([][16]byte, len(ids))
	for i, id := range ids {
		wanted[i] = id
	}
	rows, err := d.pool.Query(ctx, sqlFindEvents, pg.Args{"ids": wanted})
	if err != nil {
		return nil, fmt.Errorf("find events: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, fmt.Errorf("find events: %w", err)
	}
	found := make(map[event.ID]event.Event, len(list))
	for i := range list {
		found[list[i].ID] = list[i]
	}
	return found, nil
}

// Erase forgets every event and key, in the caller's transaction. It is for tests.
func Erase(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, sqlErase); err != nil {
		return fmt.Errorf("erase events: %w", err)
	}
	return nil
}

// Filter narrows a list. A zero field does not.
type Filter struct {
	Type, Tenant, Subject, CorrelationID string
	From, To                             time.Time // of recorded_at; To is excluded
	Below                                event.ID  // only events with smaller ids
	Limit                                int
}

// List is the events that meet the filter, newest first.
func (d *Desk) List(ctx context.Context, f Filter) ([]event.Event, error) {
	args := pg.Args{
		"type": pg.OrNull(f.Type), "tenant": pg.OrNull(f.Tenant), "subject": pg.OrNull(f.Subject), "correlation": pg.OrNull(f.CorrelationID),
		"since": pg.OrNull(f.From), "until": pg.OrNull(f.To), "limit": f.Limit, "below": pg.OrNull([16]byte(f.Below)), "root": nil,
	}
	// An event that begins a chain names it by its own id.
	if root, err := event.ParseID(event.EventPrefix, f.CorrelationID); err == nil {
		args["root"] = [16]byte(root)
	}
	// Planned for these very arguments: a generic plan would scan for every filter.
	rows, err := d.pool.Query(ctx, sqlListEvents, pgx.QueryExecModeCacheDescribe, args)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return list, nil
}

func scanEvent(row pgx.CollectableRow) (event.Event, error) {
	var e event.Event
	var r record
	if err := row.Scan(append([]any{(*[16]byte)(&e.ID)}, r.fields()...)...); err != nil {
		return e, err
	}
	return e, r.fill(&e)
}
