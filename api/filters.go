package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// filterCheck is the body of a question about a filter.
type filterCheck struct {
	Filter  string  `json:"filter" maxLength:"4096" doc:"In CEL over event." example:"event.data.total > 100"`
	EventID string  `json:"event_id,omitempty" doc:"An event that was fired." example:"evt_01jxkg2c8zf3v9e4m6r7t8w9ya"`
	Event   *firing `json:"event,omitempty" doc:"Or one as it would be fired."`
}

type filterView struct {
	_     struct{} `additionalProperties:"true"`
	Match bool     `json:"match" doc:"Whether the event is let through."`
	Error string   `json:"error,omitempty" doc:"Why the filter failed on it, which counts as no match. A field that the event does not have is no error."`
}

func (s *server) filters(api huma.API) {
	op := operation(reads, http.MethodPost, "/v1/filters/check", "check-filter", "Operations", "What a filter says of an event",
		"As it would be asked when the event is fired. Nothing is stored.")
	op.SkipValidateBody, op.MaxBodyBytes = true, maxFire+8<<10
	op.Errors = []int{400, 404, 413, 415, 422}
	register(api, op, s.checkFilter)
	documentBody[filterCheck](api, op, map[string]*huma.Example{"one": {Value: map[string]any{
		"filter": "event.data.total > 100", "event": map[string]any{"type": "order.placed", "data": map[string]any{"total": 150}},
	}}})
}

func (s *server) checkFilter(ctx context.Context, in *struct {
	Request
	RawBody []byte `contentType:"application/json"`
}) (*struct{ Body filterView }, error) {
	var body filterCheck
	if err := in.body(in.RawBody, &body); err != nil {
		return nil, err
	}
	filter, err := body.read()
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	o, err := s.occasion(ctx, &body)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	view := filterView{}
	if view.Match, err = filter.Judge(o); err != nil {
		view.Error = err.Error()
	}
	return &struct{ Body filterView }{view}, nil
}

func (b *filterCheck) read() (*registry.Filter, error) {
	var flaws event.Flaws
	filter, err := registry.CompileFilter(b.Filter)
	if err != nil {
		flaws.Add("/filter", err.Error())
	}
	switch {
	case b.Event == nil && b.EventID == "":
		flaws.Add("/event", "is required, or event_id: a filter is asked of an event")
	case b.Event != nil && b.EventID != "":
		flaws.Add("/event", "and event_id exclude each other")
	case b.Event != nil && b.Event.Data == nil:
		flaws.Add("/event/data", "is required")
	case b.Event != nil:
		if err := event.CheckType(b.Event.Type); err != nil {
			flaws.Add("/event/type", err.Error())
		}
	}
	return filter, flaws.Err()
}

// occasion is the event that the filter is asked of.
func (s *server) occasion(ctx context.Context, b *filterCheck) (*registry.Occasion, error) {
	if b.Event == nil {
		e, err := s.event(ctx, b.EventID)
		return &registry.Occasion{Type: e.Type, Data: e.Data, Facts: e.Facts}, err
	}
	facts := b.Event.facts()
	if b.Event.OccurredAt != nil {
		facts.OccurredAt = *b.Event.OccurredAt
	}
	return &registry.Occasion{Type: b.Event.Type, Data: b.Event.Data, Facts: facts}, nil
}
