package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// Bounds of operations on many.
const (
	maxBulkBody = 1 << 20
	maxIDs      = 10_000
	// bulkTime is after how long an operation on many stops and says that there is more:
	// well within the time that a request may take.
	bulkTime = 10 * time.Second
)

// bulkDeliveries is the body of an operation on many deliveries.
type bulkDeliveries struct {
	IDs      *[]string  `json:"ids,omitempty" doc:"Only these; an empty list is none. Left out: all that meet the filter."`
	Status   string     `json:"status,omitempty" enum:"pending,failed,dead,orphaned" doc:"Only those of this status."`
	Receiver string     `json:"receiver,omitempty"`
	Target   *string    `json:"target,omitempty"`
	Lane     string     `json:"lane,omitempty"`
	Event    string     `json:"event,omitempty" doc:"An event's id."`
	Type     string     `json:"type,omitempty"`
	Tenant   string     `json:"tenant,omitempty"`
	From     *time.Time `json:"from,omitempty" doc:"Of events recorded at or after."`
	To       *time.Time `json:"to,omitempty" doc:"Of events recorded before."`
	Limit    *int       `json:"limit,omitempty" minimum:"0" doc:"At most so many; 0 is none. Left out: all."`
	DryRun   bool       `json:"dry_run,omitempty" doc:"Count, and change nothing."`
}

func (b *bulkDeliveries) selection() (ledger.Selection, error) {
	var flaws event.Flaws
	s := ledger.Selection{
		Filter: ledger.Filter{Status: event.Status(b.Status), Receiver: b.Receiver, Target: b.Target, Lane: b.Lane, Type: b.Type, Tenant: b.Tenant},
		Most:   b.Limit, DryRun: b.DryRun, Until: time.Now().Add(bulkTime),
	}
	if b.From != nil {
		s.From = *b.From
	}
	if b.To != nil {
		s.To = *b.To
	}
	if b.Event != "" {
		var err error
		if s.Event, err = event.ParseID(event.EventPrefix, b.Event); err != nil {
			flaws.Add("/event", err.Error())
		}
	}
	switch event.Status(b.Status) {
	case "", event.Pending, event.Failed, event.Dead, event.Orphaned:
	default:
		flaws.Add("/status", "may be pending, failed, dead or orphaned")
	}
	for pointer, text := range map[string]string{"/receiver": b.Receiver, "/lane": b.Lane, "/type": b.Type, "/tenant": b.Tenant} {
		refuseNUL(&flaws, pointer, text)
	}
	if b.Target != nil {
		refuseNUL(&flaws, "/target", *b.Target)
	}
	s.IDs = readIDs(&flaws, event.DeliveryPrefix, b.IDs)
	checkLimit(&flaws, b.Limit)
	if b.IDs != nil && (b.Status != "" || b.Receiver != "" || b.Target != nil || b.Lane != "" || b.Event != "" || b.Type != "" || b.Tenant != "" || b.From != nil || b.To != nil) {
		flaws.Add("/ids", "name them all already; leave the other filters out")
	}
	return s, flaws.Err()
}

// readIDs is nil where none were given, which is not the same as an empty list.
func readIDs(flaws *event.Flaws, p event.Prefix, texts *[]string) []event.ID {
	if texts == nil {
		return nil
	}
	if len(*texts) > maxIDs {
		flaws.Add("/ids", fmt.Sprintf("are %d; at most %d are allowed", len(*texts), maxIDs))
		return nil
	}
	ids := make([]event.ID, 0, len(*texts))
	for i, text := range *texts {
		id, err := event.ParseID(p, text)
		if err != nil {
			flaws.Add(fmt.Sprintf("/ids/%d", i), err.Error())
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

// refuseNUL refuses what no text in the tables can hold.
func refuseNUL(flaws *event.Flaws, pointer, text string) {
	if strings.ContainsRune(text, 0) {
		flaws.Add(pointer, "must not hold NUL")
	}
}

func checkLimit(flaws *event.Flaws, limit *int) {
	if limit != nil && *limit < 0 {
		flaws.Add("/limit", "must not be negative; 0 is none, and left out it is all")
	}
}

// skips are how many were passed over, by why.
type skips map[string]int

// requeuedView, cancelledView, replayedView and prunedView are what operations came to.
type requeuedView struct {
	_        struct{} `additionalProperties:"true"`
	Requeued int      `json:"requeued"`
	Skipped  skips    `json:"skipped" doc:"Passed over, by the status they have, or why. Where a filter meant them, at most ten thousand of each are counted."`
	More     bool     `json:"more" doc:"There was not time for all: the same again goes on."`
}

type cancelledView struct {
	_         struct{} `additionalProperties:"true"`
	Cancelled int      `json:"cancelled"`
	Skipped   skips    `json:"skipped"`
	More      bool     `json:"more"`
}

type replayedView struct {
	_          struct{} `additionalProperties:"true"`
	Reopened   int      `json:"reopened" doc:"Deliveries that had ended and are owed again."`
	Added      int      `json:"added" doc:"Deliveries to receivers that had none."`
	Skipped    skips    `json:"skipped" doc:"Deliveries that are owed already, by status."`
	Events     int      `json:"events,omitempty" doc:"Events that were replayed."`
	NextCursor *string  `json:"next_cursor,omitempty" doc:"There was not time for all: the same again with this cursor goes on."`
}

// Replaying says to whom.
type Replaying struct {
	Receivers *[]string `json:"receivers,omitempty" doc:"Only to these receivers."`
	Targets   *[]string `json:"targets,omitempty" doc:"Only to these targets."`
	DryRun    bool      `json:"dry_run,omitempty"`
}

func (r *Replaying) to(ctx context.Context) fire.To {
	to := fire.To{Tenant: tenantOf(ctx)}
	if r.Receivers != nil {
		to.Receivers = append([]string{}, ownNames(ctx, *r.Receivers)...)
	}
	if r.Targets != nil {
		to.Targets = append([]string{}, ownNames(ctx, *r.Targets)...)
	}
	return to
}

// bulkEvents is the body of a replay of many.
type bulkEvents struct {
	Replaying
	IDs           *[]string  `json:"ids,omitempty" doc:"Only these events; an empty list is none. Left out: all that meet the filter."`
	Type          string     `json:"type,omitempty"`
	Tenant        string     `json:"tenant,omitempty"`
	Subject       string     `json:"subject,omitempty"`
	CorrelationID string     `json:"correlation_id,omitempty"`
	From          *time.Time `json:"from,omitempty"`
	To            *time.Time `json:"to,omitempty"`
	Limit         *int       `json:"limit,omitempty" minimum:"0" doc:"At most so many events; 0 is none."`
	Cursor        string     `json:"cursor,omitempty" doc:"next_cursor of the answer before."`
}

func (s *server) operations(api huma.API) {
	many := func(needs need, path, id, tag, summary, description string) huma.Operation {
		op := operation(needs, http.MethodPost, path, id, tag, summary, description)
		op.SkipValidateBody, op.MaxBodyBytes = true, maxBulkBody+1
		op.Errors = []int{400, 401, 404, 409, 413, 415, 422, 503}
		return op
	}
	const each = "By ids or by a filter; {} is all. What cannot be done to one is counted, by why, and stops no other."
	op := many(operates, "/v1/deliveries/requeue", "requeue-deliveries", "Deliveries", "Owe dead deliveries again", each+" Each has its whole budget again and keeps its webhook-id. Orphaned ones are meant where ids or status say so, once their receiver is declared again.")
	register(api, op, s.requeueMany)
	documentBody[bulkDeliveries](api, op, nil)
	op = many(operates, "/v1/deliveries/cancel", "cancel-deliveries", "Deliveries", "Withdraw deliveries", each+" Only what is pending or failed: what a worker holds is left to its attempt.")
	register(api, op, s.cancelMany)
	documentBody[bulkDeliveries](api, op, nil)
	op = many(operates, "/v1/events/replay", "replay-events", "Events", "Owe events again", each+" Newest first; what has ended is reopened, and who wants such events now and has no delivery gets one.")
	register(api, op, s.replayMany)
	documentBody[bulkEvents](api, op, nil)

	one := func(path, id, summary, description string) huma.Operation {
		op := operation(operates, http.MethodPost, path, id, "Deliveries", summary, description)
		op.Errors = []int{401, 404, 409, 503}
		return op
	}
	register(api, one("/v1/deliveries/{id}/requeue", "requeue-delivery", "Owe a dead delivery again", "With its whole budget and the webhook-id it had. 409 for one that is not dead, nor orphaned with its receiver back."), s.requeueOne)
	register(api, one("/v1/deliveries/{id}/cancel", "cancel-delivery", "Withdraw a delivery", "409 for one that a worker holds or that has ended."), s.cancelOne)
	op = one("/v1/deliveries/{id}/deliver", "deliver-delivery", "Try a delivery now", "Whatever it waits for. 200 once the attempt is recorded; 202 where it takes longer. 409 for one that a worker holds, that has ended, or whose receiver is paused.")
	register(api, op, s.deliverOne)

	op = many(operates, "/v1/events/{id}/replay", "replay-event", "Events", "Owe an event again", "What has ended is reopened: after a success under a new webhook-id and in the format of today. Who wants such events now and has no delivery gets one. The body may be left out.")
	register(api, op, s.replayOne)
	documentBody[Replaying](api, op, nil)
	api.OpenAPI().Paths[op.Path].Post.RequestBody.Required = false

	op = many(administers, "/v1/prune", "prune", "Operations", "Delete what is past its retention", "Events whose time is over and for which nothing is owed, with their deliveries and attempts. The service does so by itself every minute.")
	register(api, op, s.prune)
	documentBody[pruning](api, op, nil)
}

// DeliveryID names a delivery in a path.
type DeliveryID struct {
	ID string `path:"id" example:"dlv_01jxkg2c8zf3v9e4m6r7t8w9yb"`
}

func (d *DeliveryID) parse() (event.ID, error) {
	id, err := event.ParseID(event.DeliveryPrefix, d.ID)
	if err != nil {
		return id, notFound("there is no delivery of this id")
	}
	return id, nil
}

type deliveryOutput struct {
	Status int
	Body   deliveryWithAttempts
}

type bulkInput struct {
	Request
	RawBody []byte `contentType:"application/json"`
}

func (s *server) requeueMany(ctx context.Context, in *bulkInput) (*struct{ Body requeuedView }, error) {
	t, err := s.requeue(ctx, in)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &struct{ Body requeuedView }{requeuedView{Requeued: t.Done, Skipped: t.Skipped, More: t.More}}, nil
}

func (s *server) requeue(ctx context.Context, in *bulkInput) (ledger.Tally, error) {
	selection, err := in.selection(ctx)
	if err != nil {
		return ledger.Tally{}, err
	}
	return noted(ctx, s, selection.DryRun, access.Change{Action: "requeue-deliveries", Object: "deliveries", Before: asked(in.RawBody)}, func() (ledger.Tally, error) {
		t, targets, err := s.Ledger.Requeue(ctx, selection)
		s.Wake(targets)
		return t, err
	})
}

// asked is what a call on many asked for, for the audit: a body that was read before.
func asked(body []byte) any { return json.RawMessage(body) }

func (in *bulkInput) selection(ctx context.Context) (ledger.Selection, error) {
	var b bulkDeliveries
	if err := in.body(in.RawBody, &b); err != nil {
		return ledger.Selection{}, err
	}
	selection, err := b.selection()
	if err != nil {
		return selection, err
	}
	selection.Own = tenantOf(ctx)
	selection.Tenant, err = bindTenant(ctx, "/tenant", b.Tenant)
	return selection, err
}

func (s *server) cancelMany(ctx context.Context, in *bulkInput) (*struct{ Body cancelledView }, error) {
	selection, err := in.selection(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	t, err := noted(ctx, s, selection.DryRun, access.Change{Action: "cancel-deliveries", Object: "deliveries", Before: asked(in.RawBody)}, func() (ledger.Tally, error) {
		return s.Ledger.Cancel(ctx, selection)
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &struct{ Body cancelledView }{cancelledView{Cancelled: t.Done, Skipped: t.Skipped, More: t.More}}, nil
}

func (s *server) requeueOne(ctx context.Context, in *DeliveryID) (*deliveryOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	_, err = noted(ctx, s, false, access.Change{Action: "requeue-delivery", Object: "deliveries/" + in.ID}, func() (ledger.Tally, error) {
		t, targets, err := s.Ledger.Requeue(ctx, ledger.Selection{IDs: []event.ID{id}, Filter: ledger.Filter{Tenant: tenantOf(ctx)}})
		s.Wake(targets)
		return t, cmp.Or(err, undone(t, "requeued: only a dead one can; one that has ended otherwise is replayed with its event"))
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return s.delivery(ctx, id, http.StatusOK)
}

func (s *server) cancelOne(ctx context.Context, in *DeliveryID) (*deliveryOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	_, err = noted(ctx, s, false, access.Change{Action: "cancel-delivery", Object: "deliveries/" + in.ID}, func() (ledger.Tally, error) {
		t, err := s.Ledger.Cancel(ctx, ledger.Selection{IDs: []event.ID{id}, Filter: ledger.Filter{Tenant: tenantOf(ctx)}})
		return t, cmp.Or(err, undone(t, "cancelled: only one that is pending or failed can"))
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return s.delivery(ctx, id, http.StatusOK)
}

// undone is why the one delivery that an operation was for was passed over, or nil.
func undone(t ledger.Tally, cannot string) error {
	switch {
	case t.Done == 1:
		return nil
	case t.Skipped[ledger.SkippedNotFound] > 0:
		return notFound("there is no delivery of this id")
	case t.Skipped[ledger.SkippedGone] > 0:
		return problem("conflict", "its receiver is gone; declare it again first")
	}
	for status := range t.Skipped {
		return problem("conflict", fmt.Sprintf("a delivery that is %s cannot be %s", status, cannot))
	}
	return problem("conflict", "the delivery cannot be "+cannot)
}

// deliverTime is how long a caller waits for the attempt that was asked for.
const deliverTime = 12 * time.Second

func (s *server) deliverOne(ctx context.Context, in *DeliveryID) (*deliveryOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	if tenantOf(ctx) != "" {
		if _, _, err := s.Ledger.Look(ctx, tenantOf(ctx), id); err != nil {
			return nil, s.explain(ctx, err)
		}
	}
	ended, err := noted(ctx, s, false, access.Change{Action: "deliver-delivery", Object: "deliveries/" + in.ID}, func() (bool, error) {
		waiting, cancel := context.WithTimeout(ctx, deliverTime)
		defer cancel()
		return s.Deliver(waiting, id)
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	if !ended {
		return s.delivery(ctx, id, http.StatusAccepted)
	}
	return s.delivery(ctx, id, http.StatusOK)
}

func (s *server) replayOne(ctx context.Context, in *struct {
	Request
	ID      string `path:"id" example:"evt_01jxkg2c8zf3v9e4m6r7t8w9ya"`
	RawBody []byte `contentType:"application/json"`
}) (*struct{ Body replayedView }, error) {
	id, err := event.ParseID(event.EventPrefix, in.ID)
	if err != nil {
		return nil, notFound("there is no event of this id")
	}
	var b Replaying
	if len(bytes.TrimSpace(in.RawBody)) > 0 {
		if err := in.body(in.RawBody, &b); err != nil {
			return nil, err
		}
	}
	r, err := noted(ctx, s, b.DryRun, access.Change{Action: "replay-event", Object: "events/" + in.ID, Before: b}, func() (fire.Replayed, error) {
		return s.Desk.Replay(ctx, id, b.to(ctx), b.DryRun)
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &struct{ Body replayedView }{showReplayed(r)}, nil
}

func showReplayed(r fire.Replayed) replayedView {
	v := replayedView{Reopened: r.Reopened, Added: r.Added, Skipped: skips{}}
	for status, n := range r.Skipped {
		v.Skipped[string(status)] = n
	}
	return v
}

func (s *server) replayMany(ctx context.Context, in *bulkInput) (*struct{ Body replayedView }, error) {
	var b bulkEvents
	if err := in.body(in.RawBody, &b); err != nil {
		return nil, err
	}
	a, err := b.all(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	r, err := noted(ctx, s, b.DryRun, access.Change{Action: "replay-events", Object: "events", Before: asked(in.RawBody)}, func() (fire.ReplayedAll, error) {
		return s.Desk.ReplayAll(ctx, a)
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	v := showReplayed(r.Replayed)
	v.Events = r.Events
	if r.NotFound > 0 {
		v.Skipped[ledger.SkippedNotFound] = r.NotFound
	}
	if !r.Next.IsZero() {
		next := r.Next.Text(event.EventPrefix)
		v.NextCursor = &next
	}
	return &struct{ Body replayedView }{v}, nil
}

func (b *bulkEvents) all(ctx context.Context) (fire.ReplayAll, error) {
	var flaws event.Flaws
	tenant, err := bindTenant(ctx, "/tenant", b.Tenant)
	if err != nil {
		return fire.ReplayAll{}, err
	}
	a := fire.ReplayAll{
		Filter: fire.Filter{Type: b.Type, Tenant: tenant, Subject: b.Subject, CorrelationID: b.CorrelationID},
		To:     b.to(ctx), IDs: readIDs(&flaws, event.EventPrefix, b.IDs), Most: b.Limit, DryRun: b.DryRun, Until: time.Now().Add(bulkTime),
	}
	if b.From != nil {
		a.From = *b.From
	}
	if b.To != nil {
		a.Filter.To = *b.To
	}
	for pointer, text := range map[string]string{"/type": b.Type, "/tenant": b.Tenant, "/subject": b.Subject, "/correlation_id": b.CorrelationID} {
		refuseNUL(&flaws, pointer, text)
	}
	checkLimit(&flaws, b.Limit)
	if b.IDs != nil && (b.Type != "" || b.Tenant != "" || b.Subject != "" || b.CorrelationID != "" || b.From != nil || b.To != nil) {
		flaws.Add("/ids", "name them all already; leave the other filters out")
	}
	if b.Cursor != "" {
		var err error
		if a.Below, err = event.ParseID(event.EventPrefix, b.Cursor); err != nil {
			flaws.Add("/cursor", "is no cursor of this operation")
		}
	}
	return a, flaws.Err()
}

// pruning is the body of a prune.
type pruning struct {
	OlderThan *event.Duration `json:"older_than,omitempty" doc:"Instead of EVENTSVC_RETENTION; windows of event types are kept."`
	Limit     *int            `json:"limit,omitempty" minimum:"0" doc:"At most so many events; 0 is none."`
	DryRun    bool            `json:"dry_run,omitempty"`
}

type prunedView struct {
	_      struct{} `additionalProperties:"true"`
	Pruned int      `json:"pruned" doc:"Events, each with all that was kept of it."`
	Keys   int      `json:"keys" doc:"Idempotency keys that had outlived their events."`
	More   bool     `json:"more" doc:"There was not time for all: the same again goes on."`
}

func (s *server) prune(ctx context.Context, in *bulkInput) (*struct{ Body prunedView }, error) {
	var b pruning
	if err := in.body(in.RawBody, &b); err != nil {
		return nil, err
	}
	p := s.Prune
	p.Most, p.DryRun, p.Until = b.Limit, b.DryRun, time.Now().Add(bulkTime)
	if b.OlderThan != nil {
		p.Keep = time.Duration(*b.OlderThan)
	}
	var flaws event.Flaws
	checkLimit(&flaws, b.Limit)
	if err := flaws.Err(); err != nil {
		return nil, s.explain(ctx, err)
	}
	done, err := noted(ctx, s, b.DryRun, access.Change{Action: "prune", Object: "events", Before: asked(in.RawBody)}, func() (fire.Pruned, error) {
		return s.Desk.Prune(ctx, p)
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &struct{ Body prunedView }{prunedView{Pruned: done.Events, Keys: done.Keys, More: done.More}}, nil
}
