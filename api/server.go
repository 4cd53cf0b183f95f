package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"io"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/registry"
	"github.com/eventsvc/eventsvc/internal/webhook"
)

// Rooms are what the API stands on.
type Rooms struct {
	Desk     *fire.Desk
	Registry *registry.Registry
	Ledger   *ledger.Ledger
	Gate     *access.Gate
	Keys     *access.Keys
	// Ready says what keeps the process from doing its work; nothing: it is ready.
	Ready   func(ctx context.Context) []Check
	Metrics http.Handler
	// Deliver tries one delivery now; see relay.Runner.
	Deliver func(ctx context.Context, id event.ID) (ended bool, err error)
	// Await returns once first attempts were recorded at deliveries of an event; see relay.Eager.
	Await func(ctx context.Context, of event.ID, deliveries []event.ID)
	// Try makes one request to the target of a claim as it is declared now, within a time.
	Try func(ctx context.Context, c *event.Claim, within time.Duration) (event.Verdict, error)
	// Remote serves workers that are elsewhere; see relay.Remote.
	Remote Remote
	// Target is one address as this process knows it, or nil.
	Target func(event.TargetID) *event.Target
	// Wake tells the relays whom something is owed to.
	Wake func([]event.TargetID)
	// Resumed tells them that what was paused is not.
	Resumed func()
	Watch   *ledger.Watch
	// Pauses are what this process's relay leaves alone; nil where none runs.
	Pauses func() []event.Pause
	// Deaf reports whether this process's relay hears nothing; nil where none runs.
	Deaf func() bool
	// Prune is how the service prunes by itself.
	Prune fire.Prune
	// Hurry ends the pauses of this process's relay, and lifts rate limits until done is
	// called, for tests.
	Hurry func() (done func())
	// Look, where given, makes the service one for tests: it wakes the relays.
	Look func()
	// Explain says what the egress policy says of a URL.
	Explain func(ctx context.Context, url string) webhook.Explanation
	// Inbox, where given, takes webhooks at /dev/inbox.
	Inbox   http.Handler
	Tracer  trace.TracerProvider
	Meters  metric.MeterProvider
	Log     *slog.Logger
	Version string
}

// server is the API over its rooms.
type server struct {
	Rooms
	log    *slog.Logger
	tracer trace.Tracer
	pacers pacers
	// testing holds a token for each test under way.
	testing chan struct{}
}

// Bounds of requests.
const (
	maxBody         = 64 << 10        // of a declaration
	bodyReadTimeout = 5 * time.Second // for a body to arrive
	answerTimeout   = 15 * time.Second
)

// New is the whole API as a handler.
func New(rooms Rooms) http.Handler {
	s := &server{Rooms: rooms, log: rooms.Log, tracer: rooms.Tracer.Tracer("github.com/eventsvc/eventsvc/api")}
	meter, err := newMeter(rooms.Meters)
	if err != nil {
		panic(err) // names of our own making are always in order
	}
	router := chi.NewRouter()
	router.Use(withRequestID, meter.measured, plainly, s.recoverPanics, refuseOtherOrigins, refuseOddText)
	if rooms.Gate.Open() {
		router.Use(refuseOtherNames)
	}
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		notFound("there is no "+r.URL.Path+" here; /docs shows what there is").write(w, r)
	})
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		methodNotAllowed(router, r).write(w, r)
	})
	s.mountPages(router)
	s.mountTesting(router)
	api := s.describe(router)
	spec, err := specYAML(api)
	if err != nil {
		panic(err) // a document of our own making always encodes
	}
	s.mountDocs(router, spec)
	return router
}

// Spec is openapi.yaml.
func Spec() ([]byte, error) {
	s := &server{Rooms: Rooms{Gate: &access.Gate{}}}
	return specYAML(s.describe(chi.NewRouter()))
}

func specYAML(api huma.API) ([]byte, error) { return api.OpenAPI().YAML() }

// describe registers every operation.
func (s *server) describe(router chi.Router) huma.API {
	adoptErrors()
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	config := huma.DefaultConfig("eventsvc", apiVersion)
	config.Info.Description = "POST an event once under an Idempotency-Key; every receiver gets it as a signed webhook, at least once, on its own terms."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil
	config.Formats = map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
	config.Transformers = append(config.Transformers, stampRequestID)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer", Description: "An API key. The scope that it must have stands at each operation; admin holds all of them."}}
	config.Servers = []*huma.Server{{URL: "/"}}
	api := humachi.New(router, config)
	api.UseMiddleware(bounded, s.authenticate(api), refuseUnknownQuery(api))
	s.events(api)
	s.bulk(api)
	s.transactions(api)
	s.receivers(api)
	s.targets(api)
	s.patches(api)
	s.tests(api)
	s.deliveries(api)
	s.operations(api)
	s.lanes(api)
	s.claims(api)
	s.egress(api)
	s.filters(api)
	s.eventTypes(api)
	s.correlations(api)
	s.catalogue(api)
	s.status(api)
	s.keys(api)
	documentData(api)
	return api
}

// documentData says that data may be any JSON: by its Go type it would be base64.
func documentData(api huma.API) {
	anything := &huma.Schema{Description: "Any JSON value, kept and sent byte for byte."}
	for _, of := range []string{"Fact", "Chained", "ClaimFact", "CloudEvent", "BulkFiring", "Firing"} {
		api.OpenAPI().Components.Schemas.Map()[of].Properties["data"] = anything
	}
	api.OpenAPI().Paths["/v1/events"].Post.RequestBody.Content["application/json"].Schema.Properties["data"] = anything
	json := &huma.Schema{Description: "JSON, kept as declared."}
	for _, of := range []map[string]*huma.Schema{
		api.OpenAPI().Components.Schemas.Map()["TypeView"].Properties,
		api.OpenAPI().Paths["/v1/event-types/{type}"].Put.RequestBody.Content["application/json"].Schema.Properties,
	} {
		of["schema"], of["example"] = json, json
	}
	state := &huma.Schema{Description: "How it stood. Headers and secrets are not shown."}
	note := api.OpenAPI().Components.Schemas.Map()["NoteView"].Properties
	note["before"], note["after"] = state, state
}

// apiVersion is the version of the API, which is not that of the program.
const apiVersion = "1"

// jsonFormat writes answers without escaping what needs no escape, and carries
// embedded JSON as it is but for the white space between its parts.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		return json.MarshalWrite(w, v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true), json.Deterministic(true))
	},
	Unmarshal: func(data []byte, v any) error { return json.Unmarshal(data, v) },
}
