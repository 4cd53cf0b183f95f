package ledger

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

// Errors about one delivery.
var (
	ErrNotFound = errors.New("there is no such delivery")
	// ErrClaimed says that a worker holds it just now.
	ErrClaimed = errors.New("a worker holds the delivery")
	// ErrEnded says that it is terminal.
	ErrEnded = errors.New("the delivery has ended")
)

// Delivery is a delivery as it stands, with the names of what it refers to.
type Delivery struct {
	event.Delivery
	Receiver string
	Target   string
	Lane     string
	// Paused says that its target, receiver or lane is paused.
	Paused bool
	// Tenant is whose address it goes to, or "" where that is the whole service's.
	Tenant string
}

// Filter narrows a list. A zero field does not.
type Filter struct {
	ID       event.ID
	Status   event.Status
	Receiver string
	Target   *string
	Lane     string
	Event    event.ID
	Type     string
	Tenant   string
	Own      string    // the tenant whose names Receiver and Target may be; see event.Own
	From, To time.Time // of the event's recorded_at; To is excluded
	Below    event.ID  // only deliveries with smaller ids
	Limit    int
}

// List is the deliveries that meet the filter, newest first.
func (l *Ledger) List(ctx context.Context, f Filter) ([]Delivery, error) {
	return list(ctx, l.pool, f)
}

// querier is a pool, or a transaction in which several readings see one state.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func list(ctx context.Context, q querier, f Filter) ([]Delivery, error) {
	// Planned for these very arguments: a generic plan would scan for every filter.
	rows, err := q.Query(ctx, sqlListDeliveries, pgx.QueryExecModeCacheDescribe, f.args())
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanDelivery)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return list, nil
}

func (f *Filter) args() pg.Args {
	return pg.Args{
		"status": pg.OrNull(string(f.Status)), "receiver": f.named(pg.OrNull(f.Receiver)), "target": f.named(f.Target), "lane": pg.OrNull(f.Lane),
		"id": pg.OrNull([16]byte(f.ID)), "event": pg.OrNull([16]byte(f.Event)), "type": pg.OrNull(f.Type), "tenant": pg.OrNull(f.Tenant),
		"since": pg.OrNull(f.From), "until": pg.OrNull(f.To), "below": pg.OrNull([16]byte(f.Below)), "limit": f.Limit,
		"everywhere": f.Receiver == "" && f.Target == nil && f.Lane == "",
	}
}

// named are the names in the service that a name may stand for. Nil: any.
func (f *Filter) named(name *string) []string {
	switch {
	case name == nil:
		return nil
	case f.Own == "" || *name == "":
		return []string{*name}
	}
	return []string{*name, event.Own(f.Own, *name)}
}

// OfEvent is every delivery of an event, newest first.
func (l *Ledger) OfEvent(ctx context.Context, id event.ID) ([]Delivery, error) {
	return l.List(ctx, Filter{Event: id, Limit: maxFanOut})
}

// maxFanOut bounds the deliveries of one event.
const maxFanOut = 50_000

// Find is one delivery, or [ErrNotFound].
func (l *Ledger) Find(ctx context.Context, id event.ID) (Delivery, error) {
	return find(ctx, l.pool, "", id)
}

// Look is one delivery with its trail, oldest first, both of one moment; or
// [ErrNotFound]. Unless tenant is "", it must be of an event of that tenant.
func (l *Ledger) Look(ctx context.Context, tenant string, id event.ID) (d Delivery, trail []event.Attempt, err error) {
	one := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, l.pool, one, func(tx pgx.Tx) (err error) {
		if d, err = find(ctx, tx, tenant, id); err != nil {
			return err
		}
		trail, err = attempts(ctx, tx, d.EventID, id)
		return err
	})
	return d, trail, err
}

func find(ctx context.Context, q querier, tenant string, id event.ID) (Delivery, error) {
	of, err := eventOf(ctx, q, id)
	if err != nil {
		return Delivery{}, err
	}
	found, err := list(ctx, q, Filter{Event: of, ID: id, Tenant: tenant, Limit: 1})
	if err != nil {
		return Delivery{}, err
	}
	if len(found) == 0 {
		return Delivery{}, ErrNotFound
	}
	return found[0], nil
}

func (l *Ledger) eventOf(ctx context.Context, id event.ID) (event.ID, error) {
	return eventOf(ctx, l.pool, id)
}

func eventOf(ctx context.Context, q querier, id event.ID) (of event.ID, err error) {
	err = q.QueryRow(ctx, sqlLocateDelivery, pg.Args{"id": [16]byte(id)}).Scan((*[16]byte)(&of))
	if errors.Is(err, pgx.ErrNoRows) {
		return of, ErrNotFound
	}
	if err != nil {
		return of, fmt.Errorf("locate delivery: %w", err)
	}
	return of, nil
}

// Attempts is the trail of a delivery, oldest first.
func (l *Ledger) Attempts(ctx context.Context, of, delivery event.ID) ([]event.Attempt, error) {
	return attempts(ctx, l.pool, of, delivery)
}

func attempts(ctx context.Context, q querier, of, delivery event.ID) ([]event.Attempt, error) {
	rows, err := q.Query(ctx, sqlListAttempts, pg.Args{"event": [16]byte(of), "delivery": [16]byte(delivery)})
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanAttempt)
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	return list, nil
}

func scanDelivery(row pgx.CollectableRow) (Delivery, error) {
	var d Delivery
	var attempts, maxAttempts, sending int16
	var dueAt, claimedAt, leaseUntil, completedAt *time.Time
	var number *int16
	var last event.Attempt
	err := row.Scan((*[16]byte)(&d.ID), (*[16]byte)(&d.EventID), &d.Type, &d.Receiver, &d.Target, &d.Lane, (*string)(&d.Status),
		&attempts, &maxAttempts, &sending, &d.AvailableAt, &dueAt, &d.OwedSince,
		&d.ClaimedBy, &claimedAt, &leaseUntil, &completedAt,
		&number, (*string)(&last.Outcome), (*string)(&last.Class), &last.Error, &d.Paused, &d.Tenant)
	if err != nil {
		return d, err
	}
	d.Attempts, d.MaxAttempts, d.Sending = int(attempts), int(maxAttempts), int(sending)
	d.DueAt, d.ClaimedAt, d.LeaseUntil, d.CompletedAt = pg.OrZero(dueAt), pg.OrZero(claimedAt), pg.OrZero(leaseUntil), pg.OrZero(completedAt)
	d.CreatedAt = d.ID.Time()
	if number != nil {
		last.Number = int(*number)
		d.Last = &last
	}
	return d, nil
}

func scanAttempt(row pgx.CollectableRow) (event.Attempt, error) {
	var a event.Attempt
	var number, status int16
	var ms int32
	var evidence []byte
	err := row.Scan(&number, &a.StartedAt, &ms, (*string)(&a.Outcome), (*string)(&a.Class), &status, &a.Error, &a.Worker, &evidence)
	if err != nil {
		return a, err
	}
	a.Number, a.HTTPStatus, a.Duration = int(number), int(status), time.Duration(ms)*time.Millisecond
	if evidence != nil {
		a.Evidence = new(event.Evidence)
		if err := json.Unmarshal(evidence, a.Evidence); err != nil {
			return a, fmt.Errorf("read evidence: %w", err)
		}
	}
	return a, nil
}
