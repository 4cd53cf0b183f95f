package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
)

// Bounds of a bulk.
const (
	maxBulk      = 1000 // events
	maxBulkBytes = 16 << 20
)

const mediaLines = "application/x-ndjson"

// bulkFiring is one event of a bulk: a fire with its key beside it.
type bulkFiring struct {
	IdempotencyKey string `json:"idempotency_key" minLength:"1" maxLength:"255" doc:"1-255 visible ASCII characters; the same for every retry." example:"order-1042-placed"`
	firing
}

func (s *server) bulk(api huma.API) {
	op := operation(fires, http.MethodPost, "/v1/events/bulk", "fire-events", "Events", "Fire many events, each by itself",
		"Up to 1000, as a JSON array or a line each (application/x-ndjson), each with its idempotency_key. Each is answered in its place as it would have been alone: one that is refused hurts no other, and of two with the same key the second is a repeat. For all or nothing, POST /v1/transactions.")
	op.MaxBodyBytes, op.SkipValidateBody = maxBulkBytes+1, true
	op.Errors = []int{400, 401, 413, 415, 422, 503}
	register(api, op, s.fireBulk)
	documentBody[[]bulkFiring](api, op, map[string]*huma.Example{"two": {Value: []any{
		map[string]any{"idempotency_key": "order-1042-placed", "type": "order.placed", "data": map[string]any{"order": 1042}},
		map[string]any{"idempotency_key": "order-1042-paid", "type": "order.paid", "data": map[string]any{"order": 1042}},
	}}})
	body := api.OpenAPI().Paths[op.Path].Post.RequestBody
	body.Content[mediaLines] = &huma.MediaType{Schema: &huma.Schema{Type: "string", Description: "One event a line."}}
	// The specification leaves out what is embedded.
	item, alone := api.OpenAPI().Components.Schemas.Map()["BulkFiring"], huma.SchemaFromType(api.OpenAPI().Components.Schemas, typeOf[firing]())
	maps.Copy(item.Properties, alone.Properties)
	item.Required = append(item.Required, alone.Required...)
	few, most := 0, maxBulk
	body.Content["application/json"].Schema.MinItems, body.Content["application/json"].Schema.MaxItems = &few, &most
}

func (s *server) fireBulk(ctx context.Context, in *struct {
	Request
	RawBody []byte `contentType:"application/json"`
}) (*struct{ Body batchAnswer }, error) {
	entries, err := readBulk(&in.Request, slices.Clone(in.RawBody))
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	s.fireEntries(ctx, entries)
	answer, away := s.batchAnswer(ctx, entries)
	if away != nil {
		return nil, away
	}
	return &struct{ Body batchAnswer }{answer}, nil
}

// readBulk reads the events of a bulk. Those that cannot be read have their error.
func readBulk(r *Request, body []byte) ([]*entry, error) {
	if given := r.header.Get("Idempotency-Key"); given != "" {
		return nil, problem("idempotency-key-invalid", "a bulk has no Idempotency-Key of its own: give each event its idempotency_key. For all or nothing under one key, POST /v1/transactions")
	}
	elements, err := splitBulk(r, body)
	if err != nil {
		return nil, err
	}
	entries := make([]*entry, len(elements))
	for i, element := range elements {
		entries[i] = new(entry)
		entries[i].draft, entries[i].err = readBulkFiring(element)
	}
	return entries, nil
}

func splitBulk(r *Request, body []byte) ([][]byte, error) {
	contentType := r.header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(contentType); err != nil || media != mediaLines {
		if err := checkContentType(contentType, r.header.Get("Content-Encoding")); err != nil {
			return nil, err
		}
		return splitArray(body, maxBulk, "events; to send a line each, say "+mediaLines)
	}
	var lines [][]byte
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines, notTooMany(len(lines), maxBulk)
}

func readBulkFiring(element []byte) (*fire.Draft, error) {
	data, rest, err := splitData(element)
	if err != nil {
		return nil, err
	}
	var f bulkFiring
	if err := decode(rest, &f); err != nil {
		return nil, err
	}
	draft, err := f.draft(data)
	flaws, _ := err.(event.Flaws)
	if err != nil && flaws == nil {
		return nil, err
	}
	if wrong := fire.CheckKey(f.IdempotencyKey); wrong != nil {
		flaws.Add("/idempotency_key", strings.Replace(wrong.Error(), "must not be empty", "is required: 1 to 255 visible ASCII characters", 1))
	}
	if err := flaws.Err(); err != nil {
		return nil, err
	}
	draft.Key, draft.Body = f.IdempotencyKey, sha256.Sum256(element)
	return draft, nil
}
