package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/eventsvc/eventsvc/api"
)

// telemetry is where spans and figures go: to /metrics always, and elsewhere when the
// standard OTEL_* variables say so. Without them it is silent and costs next to nothing.
type telemetry struct {
	Traces   trace.TracerProvider
	Meters   metric.MeterProvider
	Metrics  http.Handler
	figures  *prometheus.Registry
	Tracing  bool // spans are exported
	shutdown []func(context.Context) error
}

func newTelemetry(ctx context.Context, version string, log *slog.Logger) (*telemetry, error) {
	if err := checkTelemetry(os.Getenv); err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry could not be exported", "err", err) }))
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "eventsvc"), attribute.String("service.version", version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil && about == nil {
		return nil, ConfigError{"OTEL_RESOURCE_ATTRIBUTES cannot be read: " + err.Error()}
	}
	t := &telemetry{Traces: noop.NewTracerProvider()}
	if exporting("TRACES") {
		if err := t.exportTraces(ctx, about); err != nil {
			return nil, err
		}
	}
	if err := t.exportMetrics(ctx, about); err != nil {
		return nil, err
	}
	return t, nil
}

// exporting reports whether the environment asks for a signal to be exported: by
// naming an exporter, or an endpoint of a collector.
func exporting(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch named := os.Getenv("OTEL_" + signal + "_EXPORTER"); named {
	case "":
	case "none", "prometheus": // /metrics is served already, and needs no port of its own
		return false
	default:
		return true
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

func (t *telemetry) exportTraces(ctx context.Context, about *resource.Resource) error {
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return ConfigError{fmt.Sprintf("OTEL_TRACES_EXPORTER and its OTEL_EXPORTER_* settings cannot be used: %v", err)}
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	t.Traces, t.Tracing, t.shutdown = provider, true, append(t.shutdown, provider.Shutdown)
	return nil
}

func (t *telemetry) exportMetrics(ctx context.Context, about *resource.Resource) error {
	figures := prometheus.NewRegistry()
	figures.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	scraped, err := otelprometheus.New(otelprometheus.WithRegisterer(figures), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	options := []sdkmetric.Option{sdkmetric.WithReader(scraped), sdkmetric.WithResource(about)}
	if exporting("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return ConfigError{fmt.Sprintf("OTEL_METRICS_EXPORTER and its OTEL_EXPORTER_* settings cannot be used: %v", err)}
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	provider := sdkmetric.NewMeterProvider(options...)
	t.Meters, t.shutdown = provider, append(t.shutdown, provider.Shutdown)
	t.figures = figures
	t.Metrics = promhttp.HandlerFor(figures, promhttp.HandlerOpts{})
	return nil
}

// propagator reads and writes traceparent alone. Baggage and tracestate are the
// platform's own and must not reach receivers.
func propagator() propagation.TextMapPropagator { return propagation.TraceContext{} }

// traced has a handler's requests be of their callers' traces: as spans where those are
// exported, and otherwise so that what is fired keeps the caller's. The handler measures
// itself, and knows its routes.
func (t *telemetry) traced(handler http.Handler) http.Handler {
	if t.Tracing {
		return otelhttp.NewHandler(handler, "http", otelhttp.WithTracerProvider(t.Traces), otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
			otelhttp.WithPropagators(propagator()), otelhttp.WithFilter(func(r *http.Request) bool { return !api.Quiet(r) }))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Traceparent") != "" {
			r = r.WithContext(propagator().Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
		}
		handler.ServeHTTP(w, r)
	})
}

// Shutdown sends what is left and stops.
func (t *telemetry) Shutdown(ctx context.Context) error {
	var failed error
	for _, stop := range t.shutdown {
		failed = errors.Join(failed, stop(ctx))
	}
	return failed
}
