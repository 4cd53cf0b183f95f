package api

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// sampling is the body of a test of a receiver or a target.
type sampling struct {
	Type string         `json:"type,omitempty" doc:"Default: eventsvc.test." example:"order.placed"`
	Data jsontext.Value `json:"data,omitempty" doc:"Sent byte for byte. Default: the declared example of the type, or a small object."`
}

// testView is what a test came to.
type testView struct {
	_          struct{}        `additionalProperties:"true"`
	Verdict    event.Ruling    `json:"verdict" enum:"success,failure,permanent,retry_after,not_yet" doc:"What the answer would have meant for a delivery."`
	Class      event.Class     `json:"class,omitempty"`
	HTTPStatus int             `json:"http_status,omitempty,omitzero"`
	Error      string          `json:"error,omitempty" doc:"Why it was no success, for people."`
	DurationMS int64           `json:"duration_ms"`
	WebhookID  string          `json:"webhook_id" doc:"It begins with test_, and the request has the header eventsvc-test: true."`
	Type       string          `json:"type"`
	Timings    *event.Timings  `json:"timings,omitempty"`
	Response   *event.Response `json:"response,omitempty"`
}

type testOutput struct{ Body testView }

// Bounds of tests.
const (
	testTime     = 12 * time.Second // within which one is answered, whatever the receiver's timeout
	testsAtOnce  = 16
	testTypeName = event.ReservedTypes + "test"
)

func (s *server) tests(api huma.API) {
	s.testing = make(chan struct{}, testsAtOnce)
	const says = "Makes one signed request at once, as an attempt of a delivery would be made, and answers what was heard. A function is called, and what it wrote is rolled back. Nothing is stored, owed, counted or paused, and one that is paused is tested all the same. The body may be left out."
	op := operation(declares, http.MethodPost, "/v1/receivers/{key}/test", "test-receiver", "Receivers", "Send a receiver a test", says)
	op.SkipValidateBody, op.MaxBodyBytes, op.Errors = true, maxFire+1, []int{400, 404, 409, 413, 415, 422}
	register(api, op, func(ctx context.Context, in *struct {
		Request
		ReceiverKey
		RawBody []byte `contentType:"application/json"`
	}) (*testOutput, error) {
		key, err := s.receiverKey(ctx, in.Key)
		if err != nil {
			return nil, s.explain(ctx, err)
		}
		r, err := s.Registry.Find(ctx, key)
		if err == nil && r.TargetID == 0 {
			err = problem("conflict", "this receiver has no address of its own; test one of its targets")
		}
		if d, _ := r.Declared(); err == nil && d.Pulled() {
			err = problem("conflict", "this receiver has no address: workers claim its deliveries")
		}
		if err != nil {
			return nil, s.explain(ctx, err)
		}
		return s.test(ctx, &in.Request, r.TargetID, in.RawBody)
	})
	documentSample(api, op)

	op = operation(declares, http.MethodPost, "/v1/receivers/{key}/targets/{target}/test", "test-target", "Targets", "Send a target a test", says)
	op.SkipValidateBody, op.MaxBodyBytes, op.Errors = true, maxFire+1, []int{400, 404, 413, 415, 422}
	register(api, op, func(ctx context.Context, in *struct {
		Request
		TargetName
		RawBody []byte `contentType:"application/json"`
	}) (*testOutput, error) {
		receiver, name, err := s.target(ctx, &in.TargetName)
		if err != nil {
			return nil, s.explain(ctx, err)
		}
		t, err := s.Registry.FindTarget(ctx, receiver, name)
		if err != nil {
			return nil, s.explain(ctx, err)
		}
		return s.test(ctx, &in.Request, t.ID, in.RawBody)
	})
	documentSample(api, op)
}

func documentSample(api huma.API, op huma.Operation) {
	documentBody[sampling](api, op, map[string]*huma.Example{"order": {Value: map[string]any{"type": "order.placed", "data": map[string]any{"order": 1042}}}})
	body := api.OpenAPI().Paths[op.Path].Post.RequestBody
	body.Required = false
	body.Content["application/json"].Schema.Properties["data"] = &huma.Schema{Description: "Any JSON value."}
}

// test makes one request to an address, under the caller's eyes.
func (s *server) test(ctx context.Context, in *Request, id event.TargetID, body []byte) (*testOutput, error) {
	sample, err := s.sample(ctx, in, slices.Clone(body))
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	select {
	case s.testing <- struct{}{}:
		defer func() { <-s.testing }()
	default:
		return nil, problem("quota-exceeded", "as many tests are under way as may be; wait as Retry-After says").with("Retry-After", "1")
	}
	claim := &event.Claim{Event: *sample, TargetID: id, MaxAttempts: 1, Test: true}
	claim.Delivery = event.NewID(time.Now())
	v, err := s.Try(ctx, claim, testTime)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	out := testView{
		Verdict: v.Ruling, Class: v.Class, HTTPStatus: v.HTTPStatus, DurationMS: v.Duration.Milliseconds(), Type: sample.Type,
		WebhookID: claim.Delivery.Text(event.TestPrefix),
	}
	if v.Ruling != event.Success {
		out.Error = v.Reason
	}
	if v.Evidence != nil {
		out.Timings, out.Response = &v.Evidence.Timings, &v.Evidence.Response
	}
	return &testOutput{out}, nil
}

// sample is the event that a test sends.
func (s *server) sample(ctx context.Context, in *Request, body []byte) (*event.Event, error) {
	var asked sampling
	var data []byte
	if len(bytes.TrimSpace(body)) > 0 {
		var rest []byte
		var err error
		if err = checkContentType(in.header.Get("Content-Type"), in.header.Get("Content-Encoding")); err == nil {
			data, rest, err = splitData(body)
		}
		if err == nil {
			err = decode(rest, &asked)
		}
		if err != nil {
			return nil, err
		}
	}
	if asked.Type == "" {
		asked.Type = testTypeName
	}
	if err := event.CheckType(asked.Type); err != nil {
		return nil, event.Flaws{{Pointer: "/type", Message: err.Error()}}
	}
	if len(data) > event.MaxData {
		return nil, tooMuchData(len(data))
	}
	if data == nil {
		var err error
		if data, err = s.exampleOf(ctx, asked.Type); err != nil {
			return nil, err
		}
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	return &event.Event{ID: event.NewID(now), Type: asked.Type, Data: data, RecordedAt: now, Facts: event.Facts{OccurredAt: now, Tenant: tenantOf(ctx)}}, nil
}

// exampleOf is what is sent of a type where nothing was given.
func (s *server) exampleOf(ctx context.Context, kind string) ([]byte, error) {
	t, err := s.Registry.FindType(ctx, kind)
	switch {
	case err == nil && len(t.Example) > 0:
		return t.Example, nil
	case err == nil || err == registry.ErrNoType:
		return []byte(`{"message":"This is a test. Nothing has happened."}`), nil
	}
	return nil, err
}
