package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
)

// receiptOf answers a draft as if it had been stored.
func receiptOf(ctx context.Context, d *fire.Draft) receipt {
	e := event.Event{ID: event.NewID(time.Now()), Type: d.Type, Data: d.Data, Facts: d.Facts, RecordedAt: time.Now()}
	return showReceipt(ctx, fire.Receipt{Event: e, Owed: []fire.Owed{{ID: e.ID, Receiver: "shop.mail"}}})
}

// BenchmarkIngest is what a fire costs before and after it is stored: as a plain handler of
// chi's, as an operation of huma's, and behind all that stands before an operation.
func BenchmarkIngest(b *testing.B) {
	s := &server{Rooms: Rooms{Gate: &access.Gate{}, Tracer: noop.NewTracerProvider()}, log: slog.New(slog.DiscardHandler)}
	direct := chi.NewRouter()
	direct.Post("/v1/events", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFire))
		if err != nil {
			b.Fatal(err)
		}
		in := &fireInput{RawBody: body}
		in.header = r.Header
		draft, err := readDraft(in)
		if err != nil {
			b.Fatal(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		jsonFormat.Marshal(w, receiptOf(r.Context(), draft))
	})
	op := operation(fires, http.MethodPost, "/v1/events", "fire-event", "Events", "", "")
	op.DefaultStatus, op.MaxBodyBytes, op.SkipValidateBody = http.StatusCreated, maxBatchBytes+1, true
	handle := func(ctx context.Context, in *fireInput) (*fireOutput, error) {
		draft, err := readDraft(in)
		if err != nil {
			return nil, err
		}
		return &fireOutput{Status: http.StatusCreated, Body: receiptOf(ctx, draft)}, nil
	}
	configured := func() huma.Config {
		config := huma.DefaultConfig("eventsvc", apiVersion)
		config.CreateHooks, config.Formats = nil, map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
		return config
	}
	alone, config := chi.NewRouter(), configured()
	huma.Register(humachi.New(alone, config), op, handle)
	config = configured()
	config.Transformers = append(config.Transformers, stampRequestID)
	meter, err := newMeter(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))
	if err != nil {
		b.Fatal(err)
	}
	behind := chi.NewRouter()
	behind.Use(withRequestID, meter.measured, plainly, s.recoverPanics, refuseOtherOrigins, refuseOddText, refuseOtherNames)
	api := humachi.New(behind, config)
	api.UseMiddleware(bounded, s.authenticate(api), refuseUnknownQuery(api))
	op.Middlewares = huma.Middlewares{boundFires}
	huma.Register(api, op, handle)

	body := `{"type":"order.placed","data":{"pad":"` + strings.Repeat("x", 1000) + `"}}`
	for _, way := range []struct {
		name string
		to   http.Handler
	}{{"chi", direct}, {"huma", alone}, {"whole", behind}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", "/v1/events", strings.NewReader(body))
				r.Host = "localhost"
				r.Header.Set("Idempotency-Key", "k")
				r.Header.Set("Content-Type", "application/json")
				r = r.WithContext(context.WithValue(r.Context(), callerKey{}, access.Operator("anybody")))
				w := httptest.NewRecorder()
				way.to.ServeHTTP(w, r)
				if w.Code != http.StatusCreated {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
