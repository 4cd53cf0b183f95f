package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// receiverView is a receiver as the API shows it, every default filled in.
type receiverView struct {
	_                 struct{}            `additionalProperties:"true"`
	Key               string              `json:"key"`
	Events            []event.Pattern     `json:"events"`
	URL               string              `json:"url,omitempty"`
	Function          string              `json:"function,omitempty"`
	Role              string              `json:"role,omitempty"`
	FanOut            bool                `json:"fan_out"`
	Signatures        []event.Signature   `json:"signatures"`
	Mode              event.Mode          `json:"mode" enum:"durable,on_commit,inline"`
	Site              string              `json:"site" enum:"relay,task"`
	Eager             bool                `json:"eager"`
	Lane              string              `json:"lane"`
	Tenant            string              `json:"tenant,omitempty"`
	Filter            string              `json:"filter,omitempty"`
	MaxAttempts       int                 `json:"max_attempts"`
	BackoffBase       event.Duration      `json:"backoff_base"`
	BackoffCap        event.Duration      `json:"backoff_cap"`
	GiveUpAfter       *event.Duration     `json:"give_up_after,omitempty"`
	CountDeferrals    bool                `json:"count_deferrals"`
	Due               *event.Duration     `json:"due,omitempty"`
	Timeout           event.Duration      `json:"timeout"`
	Lease             event.Duration      `json:"lease"`
	Format            event.Format        `json:"format"`
	Headers           map[string]string   `json:"headers"`
	PermanentStatuses []int               `json:"permanent_statuses"`
	MaxConcurrency    int                 `json:"max_concurrency"`
	RateLimit         *event.Rate         `json:"rate_limit,omitempty" example:"300/m"`
	PauseScope        event.PauseScope    `json:"pause_scope" enum:"lane,target"`
	OnFailure         *registry.OnFailure `json:"on_failure,omitempty"`
	Trace             bool                `json:"trace"`
	Description       string              `json:"description,omitempty"`
	Metadata          map[string]string   `json:"metadata"`
	Curve             curveView           `json:"curve"`
	Paused            bool                `json:"paused"`
	Unusable          string              `json:"unusable,omitempty" doc:"Why no attempt can be made of what is stored. Declare it again."`
	Version           int                 `json:"version" doc:"The ETag's number."`
	CreatedAt         time.Time           `json:"created_at"`
	UpdatedAt         time.Time           `json:"updated_at"`
	Secret            string              `json:"secret,omitempty" doc:"The signing secret. Shown once: in the answer that made it."`
}

// curveView is what the terms amount to.
type curveView struct {
	_        struct{}         `additionalProperties:"true"`
	Ceilings []event.Duration `json:"ceilings" doc:"The longest each wait can be; under full jitter it is half of that on average."`
	Longest  event.Duration   `json:"longest" doc:"The longest that retrying can last."`
	Mean     event.Duration   `json:"mean" doc:"How long it lasts on average."`
}

func (s *server) showReceiver(ctx context.Context, r *registry.Receiver, secret event.Secret) receiverView {
	declared, flaw := r.Declared()
	used := declared.Resolve(r.Key, s.Registry.Defaults())
	v := receiverView{
		Key: called(ctx, r.Key), Events: declared.Events, URL: declared.URL, Function: declared.Function, Role: declared.Role, FanOut: declared.FanOut, Signatures: declared.Ways(), Mode: used.Mode, Site: cmp.Or(declared.Site, registry.SiteRelay), Eager: used.Eager, Lane: used.Lane, Tenant: used.Tenant, Filter: declared.Filter,
		MaxAttempts: used.MaxAttempts, BackoffBase: event.Duration(used.Base), BackoffCap: event.Duration(used.Cap),
		GiveUpAfter: declared.GiveUpAfter, CountDeferrals: used.CountDeferrals, Due: declared.Due, Timeout: event.Duration(used.Timeout),
		Lease: event.Duration(used.Lease), Format: used.Format, Headers: used.Headers, PermanentStatuses: used.PermanentStatuses,
		MaxConcurrency: used.MaxConcurrency, RateLimit: declared.RateLimit, PauseScope: used.PauseScope, OnFailure: declared.OnFailure, Trace: used.Trace, Unusable: flaw, Description: declared.Description, Metadata: declared.Metadata,
		Curve: showCurve(used), Paused: r.PausedAt != nil, Version: r.Version, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if secret != nil {
		v.Secret = secret.Reveal()
	}
	if v.Headers == nil {
		v.Headers = map[string]string{}
	}
	if v.Metadata == nil {
		v.Metadata = map[string]string{}
	}
	if v.Events == nil {
		v.Events = []event.Pattern{}
	}
	return v
}

func showCurve(r *event.Receiver) curveView {
	longest := r.Longest(r.MaxAttempts)
	c := curveView{Ceilings: []event.Duration{}, Longest: event.Duration(longest), Mean: event.Duration(longest / 2)}
	for _, ceiling := range r.Ceilings(r.MaxAttempts) {
		c.Ceilings = append(c.Ceilings, event.Duration(ceiling))
	}
	return c
}

type receiverOutput struct {
	Status   int
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     receiverView
}

func (s *server) receiverOutput(ctx context.Context, r *registry.Receiver, secret event.Secret, status int) *receiverOutput {
	return &receiverOutput{Status: status, Location: "/v1/receivers/" + url.PathEscape(called(ctx, r.Key)), ETag: etag(r.Version), Body: s.showReceiver(ctx, r, secret)}
}

func etag(version int) string { return strconv.Quote(strconv.Itoa(version)) }

// ifMatch is the version that must be in force, or 0 for any.
func ifMatch(header string) (int, error) {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0, nil
	}
	if header == "*" {
		return registry.AnyVersion, nil
	}
	text, err := strconv.Unquote(header)
	version, errNumber := strconv.Atoi(text)
	if err != nil || errNumber != nil || version < 1 {
		return 0, problem("precondition-failed", `If-Match must be one ETag of this resource, such as "3"`)
	}
	return version, nil
}

// ReceiverKey names a receiver in a path.
type ReceiverKey struct {
	Key string `path:"key" doc:"1-255 of A-Z, a-z, 0-9, dot, _ and -." example:"shop.fulfilment"`
}

func (s *server) receivers(api huma.API) {
	op := operation(declares, http.MethodPut, "/v1/receivers/{key}", "put-receiver", "Receivers", "Declare a receiver",
		"Idempotent and complete: what is left out is back at its default. The signing secret is made by the service, or given, and shown once, in the answer that made it.")
	op.SkipValidateBody = true
	op.Errors = []int{400, 401, 409, 412, 413, 415, 422, 503}
	registerPut(api, op, s.putReceiver)
	documentBody[registry.Declaration](api, op, map[string]*huma.Example{"orders": {Value: map[string]any{"events": []string{"order.*"}, "url": "https://shop.example.com/hooks"}}})

	op = operation(reads, http.MethodGet, "/v1/receivers/{key}", "get-receiver", "Receivers", "One receiver with its computed curve", "")
	op.Errors = []int{401, 404, 503}
	register(api, op, s.getReceiver)

	op = operation(reads, http.MethodGet, "/v1/receivers", "list-receivers", "Receivers", "Receivers, by key", "")
	op.Errors = []int{400, 401, 422, 503}
	register(api, op, s.listReceivers)

	op = operation(declares, http.MethodDelete, "/v1/receivers/{key}", "delete-receiver", "Receivers", "Delete a receiver",
		"Refused while deliveries are owed to it, unless owed says what becomes of them.")
	op.DefaultStatus = http.StatusNoContent
	op.Errors = []int{401, 404, 409, 412, 422, 503}
	register(api, op, s.deleteReceiver)

	op = operation(declares, http.MethodPost, "/v1/receivers/{key}/rename", "rename-receiver", "Receivers", "Give a receiver another key",
		"In one step: what it is owed, and all that is kept of it, goes with it.")
	op.SkipValidateBody = true
	op.Errors = []int{400, 401, 404, 409, 413, 415, 422, 503}
	register(api, op, s.renameReceiver)
	documentBody[renaming](api, op, nil)

	for verb, paused := range map[string]bool{"pause": true, "resume": false} {
		op = operation(declares, http.MethodPost, "/v1/receivers/{key}/"+verb, verb+"-receiver", "Receivers", strings.ToUpper(verb[:1])+verb[1:]+" a receiver",
			"A paused receiver keeps what it is owed and gets no request.")
		op.Errors = []int{401, 404, 503}
		register(api, op, func(ctx context.Context, in *ReceiverKey) (*receiverOutput, error) {
			return s.pauseReceiver(ctx, in, paused)
		})
	}
}

func (s *server) pauseReceiver(ctx context.Context, in *ReceiverKey, paused bool) (*receiverOutput, error) {
	key, err := s.receiverKey(ctx, in.Key)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	r, err := s.registry(ctx).Pause(ctx, key, paused)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	s.resumed(paused)
	return s.receiverOutput(ctx, &r, nil, http.StatusOK), nil
}

// resumed has what was resumed claimed for at once.
func (s *server) resumed(paused bool) {
	if !paused {
		s.Resumed()
	}
}

// renaming is the body of a rename.
type renaming struct {
	Key string `json:"key" doc:"The new key." example:"shop.dispatch"`
}

func (s *server) renameReceiver(ctx context.Context, in *struct {
	Request
	ReceiverKey
	RawBody []byte `contentType:"application/json"`
}) (*receiverOutput, error) {
	var body renaming
	if err := in.body(in.RawBody, &body); err != nil {
		return nil, err
	}
	if err := registry.CheckKey(body.Key, event.Owner(in.Key)); err != nil {
		return nil, invalid(event.Flaws{{Pointer: "/key", Message: err.Error()}})
	}
	key, err := s.receiverKey(ctx, in.Key)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	r, err := s.registry(ctx).Rename(ctx, key, event.Own(tenantOf(ctx), body.Key))
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return s.receiverOutput(ctx, &r, nil, http.StatusOK), nil
}

func (s *server) putReceiver(ctx context.Context, in *struct {
	Request
	ReceiverKey
	IfMatch string `header:"If-Match" doc:"The ETag that must be in force."`
	RawBody []byte `contentType:"application/json"`
}) (*receiverOutput, error) {
	version, err := ifMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	var d registry.Declaration
	if err := in.body(in.RawBody, &d); err != nil {
		return nil, err
	}
	key, err := s.receiverKey(ctx, in.Key)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	if err := s.bindReceiver(ctx, key, &d); err != nil {
		return nil, s.explain(ctx, err)
	}
	if err := registry.CheckKey(key, d.Tenant); err != nil {
		return nil, problem("invalid-parameter", "the receiver's key "+err.Error())
	}
	if err := s.Registry.Check(&d); err != nil {
		return nil, s.explain(ctx, err)
	}
	put, err := s.registry(ctx).Declare(ctx, key, d, version)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	status := http.StatusOK
	if put.Created {
		status = http.StatusCreated
	}
	return s.receiverOutput(ctx, &put.Receiver, put.Secret, status), nil
}

func (s *server) getReceiver(ctx context.Context, in *ReceiverKey) (*receiverOutput, error) {
	key, err := s.receiverKey(ctx, in.Key)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	r, err := s.Registry.Find(ctx, key)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return s.receiverOutput(ctx, &r, nil, http.StatusOK), nil
}

func (s *server) listReceivers(ctx context.Context, in *PageInput) (*page[receiverView], error) {
	after, err := in.after("receivers")
	if err != nil {
		return nil, err
	}
	list, err := s.Registry.List(ctx, tenantOf(ctx), after, in.Limit+1)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return turnPage(in, "receivers", list, func(r *registry.Receiver) receiverView { return s.showReceiver(ctx, r, nil) },
		func(r *registry.Receiver) string { return r.Key }), nil
}

func (s *server) deleteReceiver(ctx context.Context, in *struct {
	Request
	ReceiverKey
	IfMatch string `header:"If-Match" doc:"The ETag that must be in force."`
	Owed    string `query:"owed" enum:"orphan,cancel" doc:"What becomes of deliveries that are still owed."`
}) (*struct{}, error) {
	version, err := ifMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	key, err := s.receiverKey(ctx, in.Key)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	gone, err := s.registry(ctx).Remove(ctx, key, version, func(ctx context.Context, tx pgx.Tx, targets []event.TargetID) error {
		return owesNothing(ctx, tx, targets, in.Owed)
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return nil, s.explainIf(ctx, s.endOwed(ctx, gone, in.Owed))
}

// owesNothing refuses to delete what is still owed something, unless the caller has said
// what shall become of it.
func owesNothing(ctx context.Context, tx pgx.Tx, targets []event.TargetID, owed string) error {
	if owed != "" {
		return nil
	}
	n, err := ledger.CountOwed(ctx, tx, targets)
	if err != nil || n == 0 {
		return err
	}
	return problem("conflict", fmt.Sprintf("%d deliveries are still owed; add ?owed=orphan or ?owed=cancel to say what becomes of them", n))
}

// endOwed does what the caller said, once the targets are gone. Deliveries under way are
// orphaned by their relay unless they succeed, and so is what is left should this be cut
// short.
func (s *server) endOwed(ctx context.Context, gone []event.TargetID, owed string) error {
	as, said := map[string]event.Status{"orphan": event.Orphaned, "cancel": event.Cancelled}[owed]
	if !said {
		return nil
	}
	_, err := s.Ledger.Abandon(ctx, gone, as)
	return err
}
