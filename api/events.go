package api

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
)

// maxFire bounds the body of a fire: the data and room for the facts beside it.
const maxFire = event.MaxData + 64<<10

// firing is the body of a fire.
type firing struct {
	Type          string             `json:"type" doc:"Dotted parts of a-z, 0-9 and _." maxLength:"128" example:"order.placed"`
	Data          jsontext.Value     `json:"data" doc:"Any JSON value, at most 262144 bytes as posted. Kept and sent byte for byte."`
	Tenant        string             `json:"tenant,omitempty" maxLength:"255" doc:"Whose event it is, where you serve several."`
	Subject       string             `json:"subject,omitempty" maxLength:"255" doc:"What it is about." example:"order/1042"`
	Source        string             `json:"source,omitempty" maxLength:"255" doc:"Where it happened."`
	OccurredAt    *time.Time         `json:"occurred_at,omitempty" doc:"When it happened in your domain. Default: when it was recorded."`
	Actor         *event.Actor       `json:"actor,omitempty" doc:"Who did it."`
	CorrelationID string             `json:"correlation_id,omitempty" maxLength:"255" doc:"Groups a chain of events. Default: the event's own id."`
	CausationID   string             `json:"causation_id,omitempty" maxLength:"255" doc:"The event that this one follows from."`
	Metadata      map[string]string  `json:"metadata,omitempty" doc:"Flat strings."`
	Suppress      *event.Suppression `json:"suppress,omitempty" doc:"Store the event, owe it to nobody, and say why."`
}

// Fact is an event as the API shows it.
type Fact struct {
	_             struct{}           `additionalProperties:"true"`
	ID            string             `json:"id" example:"evt_01jxkg2c8zf3v9e4m6r7t8w9ya"`
	Type          string             `json:"type"`
	Data          jsontext.Value     `json:"data"`
	Tenant        string             `json:"tenant,omitempty"`
	Subject       string             `json:"subject,omitempty"`
	Source        string             `json:"source,omitempty"`
	OccurredAt    time.Time          `json:"occurred_at"`
	RecordedAt    time.Time          `json:"recorded_at" doc:"The database's time."`
	Actor         *event.Actor       `json:"actor,omitempty"`
	CorrelationID string             `json:"correlation_id"`
	CausationID   string             `json:"causation_id,omitempty"`
	Metadata      map[string]string  `json:"metadata"`
	Suppress      *event.Suppression `json:"suppress,omitempty"`
}

func showEvent(e *event.Event) Fact {
	f := Fact{
		ID: e.ID.Text(event.EventPrefix), Type: e.Type, Data: jsontext.Value(e.Data), Tenant: e.Tenant, Subject: e.Subject,
		Source: e.Source, OccurredAt: e.Occurred().UTC(), RecordedAt: e.RecordedAt.UTC(), Actor: e.Actor,
		CorrelationID: e.CorrelationID, CausationID: e.CausationID, Metadata: e.Metadata, Suppress: e.Suppress,
	}
	if f.CorrelationID == "" {
		f.CorrelationID = f.ID
	}
	if f.Metadata == nil {
		f.Metadata = map[string]string{}
	}
	return f
}

// owedAtFire is a delivery in the answer to a fire: as it was then, or as it is where the
// answer has waited.
type owedAtFire struct {
	_           struct{}     `additionalProperties:"true"`
	ID          string       `json:"id" example:"dlv_01jxkg2c8zf3v9e4m6r7t8w9yb"`
	Receiver    string       `json:"receiver"`
	Target      string       `json:"target,omitempty"`
	Status      event.Status `json:"status" enum:"pending,claimed,failed,succeeded,dead,orphaned,cancelled" doc:"pending, as it is when an event is fired; with Preference-Applied as it is now."`
	AvailableAt time.Time    `json:"available_at" doc:"The earliest first attempt."`
}

type receipt struct {
	_          struct{}     `additionalProperties:"true"`
	Event      Fact         `json:"event"`
	Deliveries []owedAtFire `json:"deliveries" doc:"Empty where nobody listens."`
}

type fireInput struct {
	Request
	Key     string `header:"Idempotency-Key" doc:"1-255 visible ASCII characters, bare or quoted; the same for every retry. Required, but for CloudEvents, whose source and id are the key where none is given."`
	Prefer  string `header:"Prefer" doc:"wait=N (RFC 7240), N from 1 to 30: the answer waits so many seconds, or until the first attempts at the event's eager receivers were recorded, and shows what became of its deliveries. Not for batches and replays." example:"wait=5"`
	RawBody []byte `contentType:"application/json"`
}

type fireOutput struct {
	Status   int
	Location string `header:"Location"`
	Replayed string `header:"Idempotent-Replayed" doc:"true where the key had been spent on this event before."`
	Applied  string `header:"Preference-Applied" doc:"wait where the answer has waited: each delivery has the status that it has now."`
	Body     any    // receipt, or batchAnswer
}

func (s *server) events(api huma.API) {
	op := operation(fires, http.MethodPost, "/v1/events", "fire-event", "Events", "Fire an event",
		"Stores the key, the event and one delivery per receiver in one transaction. A 201 means that all of it is durable; any other answer means that none is. The same key again gets the same answer. CloudEvents 1.0 are taken in structured, binary and batch mode; each event of a batch is answered by itself.")
	op.DefaultStatus, op.MaxBodyBytes, op.SkipValidateBody = http.StatusCreated, maxBatchBytes+1, true
	op.Middlewares = huma.Middlewares{boundFires}
	op.Metadata[waitMetadata] = waitOfFire
	op.Errors = []int{400, 401, 404, 409, 413, 415, 422, 503}
	op.Responses = map[string]*huma.Response{
		"200": documentAnswer[batchAnswer](api, "To a batch: each of its events was answered by itself."),
		"201": documentAnswer[receipt](api, "The event is stored, or was before."),
	}
	register(api, op, s.fireEvent)
	documentBody[firing](api, op, map[string]*huma.Example{"order": {Value: map[string]any{"type": "order.placed", "data": map[string]any{"order": 1042, "total": "19.90"}}}})
	documentCloudEvents(api, op)

	op = operation(reads, http.MethodGet, "/v1/events/{id}", "get-event", "Events", "One event with its deliveries", "")
	op.Errors = []int{401, 404, 503}
	register(api, op, s.getEvent)

	op = operation(reads, http.MethodGet, "/v1/events", "list-events", "Events", "Events, newest first", "")
	op.Errors = []int{400, 401, 422, 503}
	register(api, op, s.listEvents)
}

// waitOfFire is how long the answer to a fire may wait. That to a batch never does.
func waitOfFire(h http.Header) time.Duration {
	if modeOf(h) == batch {
		return 0
	}
	return preferredWait(h)
}

func (s *server) fireEvent(ctx context.Context, in *fireInput) (*fireOutput, error) {
	m := modeOf(in.header)
	if m == batch {
		return s.fireBatch(ctx, in)
	}
	draft, err := in.read(m)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	wait := preferredWait(in.header)
	r, err := s.fireInTime(ctx, draft, wait)
	if err != nil {
		if _, given, _ := in.key(); !given {
			err = sameName(err)
		}
		return nil, s.explain(ctx, err)
	}
	out := &fireOutput{Status: http.StatusCreated, Location: "/v1/events/" + r.Event.ID.Text(event.EventPrefix), Body: showReceipt(ctx, r)}
	if r.Replayed {
		out.Replayed = "true"
	} else if wait > 0 {
		if shown, ok := s.awaited(ctx, r, wait); ok {
			out.Applied, out.Body = "wait", shown
		}
	}
	return out, nil
}

// fireInTime is fire, whose time is bounded by itself where the answer waits for longer.
func (s *server) fireInTime(ctx context.Context, draft *fire.Draft, wait time.Duration) (fire.Receipt, error) {
	if wait == 0 {
		return s.fire(ctx, draft)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return s.fire(ctx, draft)
}

// read reads a fire of one event.
func (in *fireInput) read(m mode) (*fire.Draft, error) {
	if m == plain {
		return readDraft(in)
	}
	return readCloudEvent(in, m)
}

// fire fires a draft within the span of its creation (OpenTelemetry, messaging
// conventions): every attempt's span links to this one, or to the caller's where we
// trace nothing, or to that which the draft names.
func (s *server) fire(ctx context.Context, draft *fire.Draft) (fire.Receipt, error) {
	if err := bindDraft(ctx, draft); err != nil {
		return fire.Receipt{}, err
	}
	// The key's owner and tenant are the scope of idempotency keys: two never meet.
	draft.Producer = fire.Producer(caller(ctx).Producer)
	if around := trace.SpanFromContext(ctx); !around.IsRecording() {
		if draft.TraceParent == "" {
			draft.TraceParent = traceParent(around.SpanContext())
		}
		return s.Desk.Fire(ctx, draft)
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.String("messaging.system", "eventsvc"), attribute.String("messaging.operation.name", "send"),
			attribute.String("messaging.operation.type", "send"), attribute.String("messaging.destination.name", draft.Type))}
	if draft.TraceParent != "" {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: spanContext(draft.TraceParent)}))
	}
	ctx, span := s.tracer.Start(ctx, "send "+draft.Type, options...)
	defer span.End()
	if draft.TraceParent == "" {
		draft.TraceParent = traceParent(trace.SpanContextFromContext(ctx))
	}
	r, err := s.Desk.Fire(ctx, draft)
	if err == nil {
		span.SetAttributes(attribute.String("messaging.message.id", r.Event.ID.Text(event.EventPrefix)))
	}
	return r, err
}

func showReceipt(ctx context.Context, r fire.Receipt) receipt {
	shown := receipt{Event: showEvent(&r.Event), Deliveries: []owedAtFire{}}
	for _, o := range r.Owed {
		shown.Deliveries = append(shown.Deliveries, owedAtFire{
			ID: o.ID.Text(event.DeliveryPrefix), Receiver: called(ctx, o.Receiver), Target: called(ctx, o.Target), Status: event.Pending, AvailableAt: r.Event.RecordedAt.Add(o.Due).UTC(),
		})
	}
	return shown
}

// traceParent is a span context in the form of W3C Trace Context, or "".
func traceParent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags()&trace.FlagsSampled)
}

// readDraft reads a fire. The order of checks: is there a key, is it JSON, is it the
// right shape, is it too large, does it keep the rules.
func readDraft(in *fireInput) (*fire.Draft, error) {
	key, err := idempotencyKey(in.header)
	if err != nil {
		return nil, err
	}
	if err := checkContentType(in.header.Get("Content-Type"), in.header.Get("Content-Encoding")); err != nil {
		return nil, err
	}
	// The body lies in a pooled buffer that is ours only until we answer, while a fire
	// whose caller has gone is still written.
	body := slices.Clone(in.RawBody)
	draft, err := readEvent(body)
	if err != nil {
		return nil, err
	}
	draft.Key, draft.Body = key, sha256.Sum256(body)
	return draft, nil
}

// readEvent reads one event as it is fired, without a key.
func readEvent(text []byte) (*fire.Draft, error) {
	data, rest, err := splitData(text)
	if err != nil {
		return nil, err
	}
	var f firing
	if err := decode(rest, &f); err != nil {
		return nil, err
	}
	return f.draft(data)
}

// draft is the event that a fire asks for, without a key.
func (f *firing) draft(data []byte) (*fire.Draft, error) {
	if len(data) > event.MaxData {
		return nil, tooMuchData(len(data))
	}
	draft := &fire.Draft{Type: f.Type, Data: data, Facts: f.facts()}
	flaws := draft.Check()
	if f.OccurredAt != nil {
		draft.OccurredAt = f.OccurredAt.UTC().Truncate(time.Microsecond)
		// In UTC the year may be another than in the offset it was given in.
		if year := draft.OccurredAt.Year(); draft.OccurredAt.IsZero() || year < 1 || year > 9999 {
			flaws.Add("/occurred_at", "is outside the years 1 to 9999 in UTC")
		}
	}
	return draft, flaws.Err()
}

// facts are what a fire says beside type, data and time.
func (f *firing) facts() event.Facts {
	return event.Facts{
		Tenant: f.Tenant, Subject: f.Subject, Source: f.Source, Actor: f.Actor, CorrelationID: f.CorrelationID,
		CausationID: f.CausationID, Metadata: f.Metadata, Suppress: f.Suppress,
	}
}

func tooMuchData(size int) *Problem {
	return problem("payload-too-large", fmt.Sprintf("data is %d bytes; at most %d are allowed", size, event.MaxData))
}

type eventWithDeliveries struct {
	_          struct{}       `additionalProperties:"true"`
	Event      Fact           `json:"event"`
	Deliveries []DeliveryView `json:"deliveries"`
}

func (s *server) getEvent(ctx context.Context, in *struct {
	ID string `path:"id" example:"evt_01jxkg2c8zf3v9e4m6r7t8w9ya"`
}) (*struct{ Body eventWithDeliveries }, error) {
	e, err := s.event(ctx, in.ID)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	deliveries, err := s.Ledger.OfEvent(ctx, e.ID)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	body := eventWithDeliveries{Event: showEvent(&e), Deliveries: []DeliveryView{}}
	for i := range deliveries {
		body.Deliveries = append(body.Deliveries, showDelivery(ctx, &deliveries[i]))
	}
	return &struct{ Body eventWithDeliveries }{body}, nil
}

// event is one that the caller may see.
func (s *server) event(ctx context.Context, text string) (event.Event, error) {
	id, err := event.ParseID(event.EventPrefix, text)
	if err != nil {
		return event.Event{}, fire.ErrNotFound
	}
	e, err := s.Desk.Find(ctx, id)
	if tenant := tenantOf(ctx); err == nil && tenant != "" && e.Tenant != tenant {
		return event.Event{}, fire.ErrNotFound
	}
	return e, err
}

type eventFilter struct {
	PageInput
	Type          string    `query:"type"`
	Tenant        string    `query:"tenant"`
	Subject       string    `query:"subject"`
	CorrelationID string    `query:"correlation_id"`
	From          time.Time `query:"from" doc:"Recorded at or after."`
	To            time.Time `query:"to" doc:"Recorded before."`
}

func (s *server) listEvents(ctx context.Context, in *eventFilter) (*page[Fact], error) {
	below, err := in.start("events", event.EventPrefix)
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
	list, err := s.Desk.List(ctx, fire.Filter{
		Type: in.Type, Tenant: tenant, Subject: in.Subject, CorrelationID: in.CorrelationID, From: in.From, To: in.To,
		Below: below, Limit: in.Limit + 1,
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return turnPage(&in.PageInput, "events", list, func(e *event.Event) Fact { return showEvent(e) },
		func(e *event.Event) string { return e.ID.Text(event.EventPrefix) }), nil
}
