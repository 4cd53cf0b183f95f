package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventsvc/eventsvc/internal/fire"
)

// mode is how a fire says what it says: in this API's own form, or in one of the three
// of CloudEvents' HTTP binding.
type mode int

const (
	plain mode = iota
	structured
	binary
	batch
)

// Media types of CloudEvents in JSON.
const (
	mediaStructured = "application/cloudevents+json"
	mediaBatch      = "application/cloudevents-batch+json"
)

// modeOf tells the mode as the binding does, by the Content-Type; the binary mode by its
// headers, any one of those that it must have.
func modeOf(header http.Header) mode {
	media := strings.ToLower(strings.TrimSpace(header.Get("Content-Type")))
	switch {
	case strings.HasPrefix(media, "application/cloudevents-batch"):
		return batch
	case strings.HasPrefix(media, "application/cloudevents"):
		return structured
	case slices.ContainsFunc([]string{"Ce-Specversion", "Ce-Id", "Ce-Source", "Ce-Type"}, func(name string) bool { return len(header[name]) > 0 }):
		return binary
	}
	return plain
}

// readCloudEvent reads a fire of one event in the structured or the binary mode.
func readCloudEvent(in *fireInput, m mode) (*fire.Draft, error) {
	key, given, err := in.key()
	if err != nil {
		return nil, err
	}
	var o *occurrence
	if m == binary {
		o, err = readBinary(in.header, slices.Clone(in.RawBody))
	} else {
		o, err = readStructuredBody(in)
	}
	if err != nil {
		return nil, err
	}
	if !given {
		key = o.key()
	}
	return o.draft(key)
}

func readStructuredBody(in *fireInput) (*occurrence, error) {
	if err := checkCloudEventsType(in.header, mediaStructured); err != nil {
		return nil, err
	}
	return readStructured(slices.Clone(in.RawBody))
}

// key is the Idempotency-Key, where one is given.
func (in *fireInput) key() (key string, given bool, err error) {
	if strings.TrimSpace(strings.Join(in.header.Values("Idempotency-Key"), "")) == "" {
		return "", false, nil
	}
	key, err = idempotencyKey(in.header)
	return key, true, err
}

// checkCloudEventsType refuses formats of CloudEvents other than JSON.
func checkCloudEventsType(header http.Header, want string) error {
	contentType := header.Get("Content-Type")
	if err := checkContentType(contentType, header.Get("Content-Encoding")); err != nil {
		return problem("unsupported-media-type", strings.ReplaceAll(err.Error(), "application/json", want))
	}
	if media, _, _ := strings.Cut(contentType, ";"); !strings.EqualFold(strings.TrimSpace(media), want) || !isJSON(contentType) {
		return problem("unsupported-media-type", fmt.Sprintf("the body is sent as %q; send it as %s, in UTF-8", clip(contentType), want))
	}
	return nil
}

// sameName says of a fire without a key of its own that its source and id name another
// event.
func sameName(err error) error {
	if errors.Is(err, fire.ErrKeyReused) {
		return problem("idempotency-key-reused", "an event of this source and id was fired before, and it was another; a new event has a new id")
	}
	return err
}

// boundFires bounds a body: a batch may be larger than what holds one event.
func boundFires(ctx huma.Context, next func(huma.Context)) {
	r, w := humachi.Unwrap(ctx)
	limit := int64(maxFire)
	if modeOf(r.Header) == batch {
		limit = maxBatchBytes
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	next(ctx)
}

// cloudEvent is what a CloudEvent looks like, for the specification.
type cloudEvent struct {
	_               struct{}       `additionalProperties:"true"`
	SpecVersion     string         `json:"specversion" enum:"1.0"`
	ID              string         `json:"id" minLength:"1" doc:"With source the name of the event, and so the key where no Idempotency-Key is given. Kept as ce_id in metadata." example:"A234-1234-1234"`
	Source          string         `json:"source" minLength:"1" maxLength:"255" doc:"A URI reference." example:"https://shop.example.com/eu"`
	Type            string         `json:"type" maxLength:"128" doc:"Dotted parts of a-z, 0-9 and _." example:"order.placed"`
	Subject         string         `json:"subject,omitempty" maxLength:"255"`
	Time            string         `json:"time,omitempty" format:"date-time" doc:"Is kept as occurred_at."`
	DataContentType string         `json:"datacontenttype,omitempty" doc:"JSON of some kind. Default: application/json."`
	DataSchema      string         `json:"dataschema,omitempty" maxLength:"255"`
	Data            jsontext.Value `json:"data,omitempty"`
	DataBase64      string         `json:"data_base64,omitempty" doc:"JSON in base64, instead of data."`
	TraceParent     string         `json:"traceparent,omitempty" doc:"The trace that every attempt is linked to."`
	CorrelationID   string         `json:"correlationid,omitempty" maxLength:"255"`
	CausationID     string         `json:"causationid,omitempty" maxLength:"255"`
	Tenant          string         `json:"tenant,omitempty" maxLength:"255"`
}

// documentCloudEvents says in the specification that a fire may be CloudEvents.
func documentCloudEvents(api huma.API, op huma.Operation) {
	post := api.OpenAPI().Paths[op.Path].Post
	one := api.OpenAPI().Components.Schemas.Schema(typeOf[cloudEvent](), true, "CloudEvent")
	none, most := 0, maxBatch
	// In the binary mode an event without data has no body.
	post.RequestBody.Required = false
	post.RequestBody.Content[mediaStructured] = &huma.MediaType{Schema: one}
	post.RequestBody.Content[mediaBatch] = &huma.MediaType{Schema: &huma.Schema{Type: "array", Items: one, MinItems: &none, MaxItems: &most}}
	for _, name := range []string{"ce-specversion", "ce-id", "ce-source", "ce-type", "ce-subject", "ce-time"} {
		post.Parameters = append(post.Parameters, &huma.Param{Name: name, In: "header", Schema: &huma.Schema{Type: "string"}, Description: "Of a CloudEvent in binary mode, whose data is the body."})
	}
}
