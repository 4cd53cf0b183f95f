package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventsvc/eventsvc/internal/registry"
)

// typeDeclaration is the body that declares an event type.
type typeDeclaration struct {
	Description string         `json:"description,omitempty" maxLength:"1000"`
	Schema      jsontext.Value `json:"schema,omitempty" doc:"JSON Schema (2020-12) that the data of events must keep. Complete in itself: nothing is fetched."`
	Example     jsontext.Value `json:"example,omitempty" doc:"Data such as these events have."`
	Retention   string         `json:"retention,omitempty" doc:"For how long events of this type are kept: whole seconds such as 30d, succeeded (until every delivery has), or settled (until every delivery is terminal). Default: EVENTSVC_RETENTION." example:"30d"`
}

type typeView struct {
	_           struct{}       `additionalProperties:"true"`
	Type        string         `json:"type"`
	Description string         `json:"description,omitempty"`
	Schema      jsontext.Value `json:"schema,omitempty"`
	Example     jsontext.Value `json:"example,omitempty"`
	Retention   string         `json:"retention,omitempty"`
	Version     int            `json:"version" doc:"The ETag's number."`
	CreatedAt   time.Time      `json:"created_at"`
	UpdatedAt   time.Time      `json:"updated_at"`
}

func showType(t *registry.EventType) typeView {
	return typeView{
		Type: t.Name, Description: t.Description, Schema: t.Schema, Example: t.Example, Retention: t.Retention,
		Version: t.Version, CreatedAt: t.CreatedAt.UTC(), UpdatedAt: t.UpdatedAt.UTC(),
	}
}

type typeOutput struct {
	Status int
	ETag   string `header:"ETag"`
	Body   typeView
}

// TypeName names an event type in a path.
type TypeName struct {
	Type string `path:"type" example:"order.placed"`
}

func (s *server) eventTypes(api huma.API) {
	op := operation(declaresAll, http.MethodPut, "/v1/event-types/{type}", "put-event-type", "Event types", "Declare an event type",
		"Idempotent and complete. What is declared holds for events that are fired from now on; stored ones stay as they are.")
	op.SkipValidateBody, op.MaxBodyBytes = true, maxBulkBody+1
	op.Errors = []int{400, 401, 412, 413, 415, 422, 503}
	registerPut(api, op, s.putType)
	documentBody[typeDeclaration](api, op, map[string]*huma.Example{"order": {Value: map[string]any{
		"description": "An order was placed.", "schema": map[string]any{"type": "object", "required": []string{"order"}}, "example": map[string]any{"order": 1042}}}})

	op = operation(reads, http.MethodGet, "/v1/event-types/{type}", "get-event-type", "Event types", "One event type", "")
	op.Errors = []int{401, 404, 503}
	register(api, op, s.getType)

	op = operation(reads, http.MethodGet, "/v1/event-types", "list-event-types", "Event types", "Declared event types, by name", "")
	op.Errors = []int{400, 401, 422, 503}
	register(api, op, s.listTypes)

	op = operation(declaresAll, http.MethodDelete, "/v1/event-types/{type}", "delete-event-type", "Event types", "Delete the declaration of an event type",
		"Its events stay, and are kept as was said when they were fired.")
	op.DefaultStatus = http.StatusNoContent
	op.Errors = []int{401, 404, 412, 503}
	register(api, op, s.deleteType)
}

func (s *server) putType(ctx context.Context, in *struct {
	Request
	TypeName
	IfMatch string `header:"If-Match" doc:"The ETag that must be in force."`
	RawBody []byte `contentType:"application/json"`
}) (*typeOutput, error) {
	version, err := ifMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	var b typeDeclaration
	if err := in.body(in.RawBody, &b); err != nil {
		return nil, err
	}
	d := registry.TypeDeclaration{Description: b.Description, Schema: b.Schema.Clone(), Example: b.Example.Clone(), Retention: b.Retention}
	if err := registry.CheckType(in.Type, &d); err != nil {
		return nil, s.explain(ctx, err)
	}
	put, err := s.registry(ctx).DeclareType(ctx, in.Type, d, version)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	status := http.StatusOK
	if put.Created {
		status = http.StatusCreated
	}
	return &typeOutput{status, etag(put.Type.Version), showType(&put.Type)}, nil
}

func (s *server) getType(ctx context.Context, in *TypeName) (*typeOutput, error) {
	t, err := s.Registry.FindType(ctx, in.Type)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &typeOutput{http.StatusOK, etag(t.Version), showType(&t)}, nil
}

func (s *server) listTypes(ctx context.Context, in *PageInput) (*page[typeView], error) {
	after, err := in.after("event-types")
	if err != nil {
		return nil, err
	}
	list, err := s.Registry.Types(ctx, after, in.Limit+1)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return turnPage(in, "event-types", list, func(t *registry.EventType) typeView { return showType(t) },
		func(t *registry.EventType) string { return t.Name }), nil
}

func (s *server) deleteType(ctx context.Context, in *struct {
	TypeName
	IfMatch string `header:"If-Match" doc:"The ETag that must be in force."`
}) (*struct{}, error) {
	version, err := ifMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	return nil, s.explainIf(ctx, s.registry(ctx).RemoveType(ctx, in.Type, version))
}
