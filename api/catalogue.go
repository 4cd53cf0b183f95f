package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/registry"
)

// rendered is an answer that is no JSON of huma's.
type rendered struct {
	ContentType string `header:"Content-Type"`
	Vary        string `header:"Vary"`
	Body        []byte
}

func (s *server) catalogue(api huma.API) {
	op := operation(readsAll, http.MethodGet, "/v1/catalogue", "get-catalogue", "Catalogue", "Event types and who listens, with their terms",
		"As JSON, or as a page where Accept asks for text/markdown. It names no address and no secret, and its order is stable.")
	op.Errors = []int{401, 503}
	op.Responses = map[string]*huma.Response{"200": {
		Description: "The catalogue", Content: map[string]*huma.MediaType{
			"application/json": {Schema: huma.SchemaFromType(api.OpenAPI().Components.Schemas, typeOf[registry.Catalogue]())},
			"text/markdown":    {Schema: &huma.Schema{Type: "string"}},
		},
	}}
	register(api, op, s.getCatalogue)

	op = operation(readsAll, http.MethodGet, "/v1/asyncapi.yaml", "get-asyncapi", "Catalogue", "What receivers are sent, as AsyncAPI 3",
		"One channel and one send operation for each event type of the catalogue.")
	op.Errors = []int{401, 503}
	op.Responses = map[string]*huma.Response{"200": {
		Description: "The document", Content: map[string]*huma.MediaType{"application/yaml": {Schema: &huma.Schema{Type: "string"}}},
	}}
	register(api, op, s.getAsyncAPI)
}

func (s *server) getCatalogue(ctx context.Context, in *struct {
	Accept string `header:"Accept"`
}) (*rendered, error) {
	c, err := s.Registry.Catalogue(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	out := &rendered{Vary: "Accept"}
	if wantsMarkdown(in.Accept) {
		out.ContentType, out.Body = "text/markdown; charset=utf-8", []byte(c.Markdown())
		return out, nil
	}
	out.ContentType = "application/json"
	if out.Body, err = json.Marshal(c); err != nil {
		return nil, s.explain(ctx, err)
	}
	return out, nil
}

// wantsMarkdown reports whether Accept names text/markdown before JSON.
func wantsMarkdown(accept string) bool {
	markdown, json := strings.Index(accept, "text/markdown"), strings.Index(accept, "application/json")
	return markdown >= 0 && (json < 0 || markdown < json)
}

func (s *server) getAsyncAPI(ctx context.Context, _ *struct{}) (*rendered, error) {
	c, err := s.Registry.Catalogue(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	doc, err := asyncAPI(&c)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &rendered{ContentType: "application/yaml; charset=utf-8", Body: doc}, nil
}
