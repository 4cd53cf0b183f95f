package api

import (
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
)

// Request gives a handler the headers and the query as they came: which of them were
// sent at all, and how often; and whom the caller speaks for.
type Request struct {
	header http.Header
	query  url.Values
	tenant string // that the caller is bound to
}

// Resolve implements huma.Resolver.
func (r *Request) Resolve(ctx huma.Context) []error {
	raw, _ := humachi.Unwrap(ctx)
	r.header = raw.Header
	if raw.URL.RawQuery != "" {
		r.query = raw.URL.Query()
	}
	r.tenant = tenantOf(ctx.Context())
	return nil
}

// body is decode over a request's body, once its content type was checked.
func (r *Request) body(raw []byte, into any) error {
	if err := checkContentType(r.header.Get("Content-Type"), r.header.Get("Content-Encoding")); err != nil {
		return err
	}
	return decode(raw, into)
}

// documentBody says in the specification what a body looks like that is read by hand.
func documentBody[T any](api huma.API, op huma.Operation, examples map[string]*huma.Example) {
	schema := huma.SchemaFromType(api.OpenAPI().Components.Schemas, typeOf[T]())
	item := api.OpenAPI().Paths[op.Path]
	documented := item.Post
	switch op.Method {
	case http.MethodPut:
		documented = item.Put
	case http.MethodPatch:
		documented = item.Patch
	}
	documented.RequestBody = &huma.RequestBody{
		Required: true,
		Content:  map[string]*huma.MediaType{"application/json": {Schema: schema, Examples: examples}},
	}
}

// documentAnswer is an answer for the specification, where an operation has several.
func documentAnswer[T any](api huma.API, description string) *huma.Response {
	schema := api.OpenAPI().Components.Schemas.Schema(typeOf[T](), true, "")
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}
