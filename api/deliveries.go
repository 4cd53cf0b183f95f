package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// DeliveryView is a delivery as the API shows it, whichever table holds it.
type DeliveryView struct {
	_             struct{}     `additionalProperties:"true"`
	ID            string       `json:"id" example:"dlv_01jxkg2c8zf3v9e4m6r7t8w9yb"`
	EventID       string       `json:"event_id"`
	Type          string       `json:"type"`
	Receiver      string       `json:"receiver"`
	Target        string       `json:"target,omitempty"`
	Lane          string       `json:"lane"`
	Status        event.Status `json:"status" enum:"pending,claimed,failed,succeeded,dead,orphaned,cancelled"`
	Attempts      int          `json:"attempts" doc:"Attempts spent."`
	MaxAttempts   int          `json:"max_attempts"`
	AvailableAt   *time.Time   `json:"available_at,omitempty" doc:"The earliest next attempt, while owed."`
	DueAt         *time.Time   `json:"due_at,omitempty" doc:"When scheduled work is due."`
	OwedSince     time.Time    `json:"owed_since"`
	NextAttemptAt *time.Time   `json:"next_attempt_at,omitempty" doc:"When it will be tried next, if nothing holds it up."`
	Why           string       `json:"why" doc:"Why it stands where it stands, for people."`
	ClaimedBy     string       `json:"claimed_by,omitempty"`
	ClaimedAt     *time.Time   `json:"claimed_at,omitempty"`
	LeaseUntil    *time.Time   `json:"lease_until,omitempty"`
	LastError     string       `json:"last_error,omitempty" doc:"Of the last attempt, unless it succeeded."`
	WebhookID     string       `json:"webhook_id" doc:"The same on every attempt."`
	CreatedAt     time.Time    `json:"created_at"`
	CompletedAt   *time.Time   `json:"completed_at,omitempty"`
}

// deliveryWithAttempts is a delivery shown alone.
type deliveryWithAttempts struct {
	DeliveryView
	AttemptLog []attemptView `json:"attempt_log" doc:"Every attempt, oldest first."`
}

type attemptView struct {
	_          struct{}        `additionalProperties:"true"`
	Number     int             `json:"number"`
	StartedAt  time.Time       `json:"started_at"`
	DurationMS int64           `json:"duration_ms"`
	Outcome    event.Outcome   `json:"outcome" enum:"succeeded,failed,deferred,not_yet,unknown"`
	Class      event.Class     `json:"class,omitempty"`
	HTTPStatus int             `json:"http_status,omitempty,omitzero"`
	Error      string          `json:"error,omitempty"`
	Worker     string          `json:"worker,omitempty"`
	Timings    *event.Timings  `json:"timings,omitempty"`
	Response   *event.Response `json:"response,omitempty"`
}

func showDelivery(ctx context.Context, d *ledger.Delivery) DeliveryView {
	v := DeliveryView{
		ID: d.ID.Text(event.DeliveryPrefix), EventID: d.EventID.Text(event.EventPrefix), Type: d.Type, Receiver: called(ctx, d.Receiver), Target: called(ctx, d.Target),
		Lane: d.Lane, Status: d.Status, Attempts: d.Attempts, MaxAttempts: d.MaxAttempts, DueAt: moment(d.DueAt), OwedSince: d.OwedSince.UTC(),
		Why: why(d), ClaimedBy: d.ClaimedBy, ClaimedAt: moment(d.ClaimedAt), LeaseUntil: moment(d.LeaseUntil),
		WebhookID: event.WebhookID(d.ID, d.Sending), CreatedAt: d.CreatedAt.UTC(), CompletedAt: moment(d.CompletedAt),
	}
	if !d.Status.Terminal() {
		v.AvailableAt = moment(d.AvailableAt)
	}
	if d.Status == event.Pending || d.Status == event.Failed {
		v.NextAttemptAt = moment(d.AvailableAt)
	}
	if d.Last != nil && d.Last.Outcome != event.OutcomeSucceeded {
		v.LastError = d.Last.Error
	}
	if tenant := tenantOf(ctx); tenant != "" {
		veil(&v, d.Tenant == tenant)
	}
	return v
}

// veil hides what is not for tenants: who works, and of addresses that are not their own
// what was heard there.
func veil(v *DeliveryView, own bool) {
	v.ClaimedBy = ""
	if v.Status == event.Claimed {
		v.Why = "an attempt is under way"
	}
	if !own && v.LastError != "" {
		v.LastError, v.Why = "", fmt.Sprintf("%s after %d of %d attempts", v.Status, v.Attempts, v.MaxAttempts)
	}
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	utc := t.UTC()
	return &utc
}

// why says in a sentence why a delivery stands where it stands.
func why(d *ledger.Delivery) string {
	last := ""
	if d.Last != nil {
		last = d.Last.Error
	}
	switch d.Status {
	case event.Succeeded:
		return fmt.Sprintf("acknowledged by the receiver on attempt %d", d.Attempts)
	case event.Claimed:
		return fmt.Sprintf("worker %s holds it until its lease ends", d.ClaimedBy)
	case event.Orphaned:
		return "its receiver is gone"
	case event.Cancelled:
		return "withdrawn before it ran"
	case event.Dead:
		return dead(d, last)
	}
	switch {
	case d.Paused:
		return "its receiver is paused; it keeps its place"
	case d.Last != nil && d.Status == event.Failed:
		return fmt.Sprintf("attempt %d of %d: %s", d.Last.Number, d.MaxAttempts, last)
	case d.Last != nil:
		return last
	case !d.DueAt.IsZero():
		return "scheduled: not due yet, or just due"
	}
	return "waits for a worker"
}

func dead(d *ledger.Delivery, last string) string {
	if d.Last == nil {
		return "given up"
	}
	switch d.Last.Class {
	case event.ClassGaveUp, event.ClassPermanent, event.ClassDecode:
		return last
	case event.ClassPoison:
		return "too many workers were lost while they held it"
	}
	return fmt.Sprintf("all %d attempts are spent; the last: %s", d.MaxAttempts, last)
}

func (s *server) deliveries(api huma.API) {
	op := operation(reads, http.MethodGet, "/v1/deliveries", "list-deliveries", "Deliveries", "Deliveries, newest first", "")
	op.Errors = []int{400, 401, 422, 503}
	register(api, op, s.listDeliveries)

	op = operation(reads, http.MethodGet, "/v1/deliveries/{id}", "get-delivery", "Deliveries", "One delivery with every attempt", "")
	op.Errors = []int{401, 404, 503}
	register(api, op, s.getDelivery)
}

type deliveryFilter struct {
	PageInput
	Status   string    `query:"status" enum:"pending,claimed,failed,succeeded,dead,orphaned,cancelled"`
	Receiver string    `query:"receiver"`
	Target   string    `query:"target"`
	Lane     string    `query:"lane"`
	Event    string    `query:"event" doc:"An event's id."`
	Type     string    `query:"type"`
	Tenant   string    `query:"tenant"`
	From     time.Time `query:"from" doc:"Of events recorded at or after."`
	To       time.Time `query:"to" doc:"Of events recorded before."`
}

func (s *server) listDeliveries(ctx context.Context, in *deliveryFilter) (*page[DeliveryView], error) {
	below, err := in.start("deliveries", event.DeliveryPrefix)
	if err != nil {
		return nil, err
	}
	if err := in.checkType(in.Type); err != nil {
		return nil, err
	}
	tenant, err := bindTenant(ctx, "/tenant", in.Tenant)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	f := ledger.Filter{
		Status: event.Status(in.Status), Receiver: in.Receiver, Lane: in.Lane, Type: in.Type, Tenant: tenant, Own: tenantOf(ctx),
		From: in.From, To: in.To, Below: below, Limit: in.Limit + 1,
	}
	if in.query.Has("target") {
		f.Target = &in.Target
	}
	if in.Event != "" {
		if f.Event, err = event.ParseID(event.EventPrefix, in.Event); err != nil {
			return nil, problem("invalid-parameter", "query event: "+err.Error())
		}
	}
	list, err := s.Ledger.List(ctx, f)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return turnPage(&in.PageInput, "deliveries", list, func(d *ledger.Delivery) DeliveryView { return showDelivery(ctx, d) },
		func(d *ledger.Delivery) string { return d.ID.Text(event.DeliveryPrefix) }), nil
}

func (s *server) getDelivery(ctx context.Context, in *DeliveryID) (*deliveryOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	return s.delivery(ctx, id, http.StatusOK)
}

// delivery answers with one delivery as it stands.
func (s *server) delivery(ctx context.Context, id event.ID, status int) (*deliveryOutput, error) {
	d, attempts, err := s.Ledger.Look(ctx, tenantOf(ctx), id)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	out := &deliveryOutput{Status: status, Body: deliveryWithAttempts{DeliveryView: showDelivery(ctx, &d), AttemptLog: []attemptView{}}}
	for i := range attempts {
		a := showAttempt(&attempts[i])
		if tenant := tenantOf(ctx); tenant != "" {
			a.Worker = ""
			if d.Tenant != tenant {
				a.Error, a.Response = "", nil
			}
		}
		out.Body.AttemptLog = append(out.Body.AttemptLog, a)
	}
	return out, nil
}

func showAttempt(a *event.Attempt) attemptView {
	v := attemptView{
		Number: a.Number, StartedAt: a.StartedAt.UTC(), DurationMS: a.Duration.Milliseconds(), Outcome: a.Outcome, Class: a.Class,
		HTTPStatus: a.HTTPStatus, Error: a.Error, Worker: a.Worker,
	}
	if a.Evidence != nil {
		v.Timings, v.Response = &a.Evidence.Timings, &a.Evidence.Response
	}
	return v
}
