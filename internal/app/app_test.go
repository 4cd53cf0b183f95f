package app

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
)

func TestEverySettingIsInTheREADMEAndWorksAtItsDefault(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		if !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("README does not name %s", name)
		}
	}
	c, err := ReadConfig(nil)
	if err != nil || c.RelayWorkers != 256 || c.Batch != 500 || time.Duration(c.Poll) != time.Second || c.MaxAttempts != 20 || time.Duration(c.MaxRetryAfter) != 24*time.Hour {
		t.Errorf("got %+v, %v", c, err)
	}
}

// collector takes what is exported over OTLP.
func collector(t *testing.T) (url string, got chan string) {
	t.Helper()
	got = make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + string(body)
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

func TestSpansAreExportedOverOTLPWhenTheEnvironmentSaysSo(t *testing.T) {
	url, got := collector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	tel, err := newTelemetry(t.Context(), "1.2.3", slog.New(slog.DiscardHandler))
	if err != nil || !tel.Tracing {
		t.Fatal(tel, err)
	}
	_, span := tel.Traces.Tracer("test").Start(t.Context(), "process deliveries")
	span.End()
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	select {
	case sent := <-got:
		if !strings.HasPrefix(sent, "/v1/traces ") || !strings.Contains(sent, "process deliveries") || !strings.Contains(sent, "eventsvc") {
			t.Errorf("got %q", sent)
		}
	default:
		t.Error("nothing was exported")
	}
}

func TestTelemetryIsSilentWithoutTheEnvironmentsWord(t *testing.T) {
	for _, env := range []map[string]string{{}, {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}} {
		t.Run("", func(t *testing.T) {
			for k, v := range env {
				t.Setenv(k, v)
			}
			if _, ok := env["OTEL_TRACES_EXPORTER"]; ok {
				t.Setenv("OTEL_METRICS_EXPORTER", "none")
			}
			tel, err := newTelemetry(t.Context(), "", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if _, span := tel.Traces.Tracer("test").Start(t.Context(), "x"); span.IsRecording() || tel.Tracing {
				t.Error("it records")
			}
			if err := tel.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestABadExporterIsAConfigurationErrorThatNamesItsVariable(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
	_, err := newTelemetry(t.Context(), "", slog.New(slog.DiscardHandler))
	if _, ok := err.(ConfigError); !ok || !strings.Contains(err.Error(), "OTEL_TRACES_EXPORTER") {
		t.Errorf("got %v", err)
	}
}

func TestMetricsAreScraped(t *testing.T) {
	tel, err := newTelemetry(t.Context(), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	counter, err := tel.Meters.Meter("test").Int64Counter("eventsvc.things")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3)
	w := httptest.NewRecorder()
	tel.Metrics.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"eventsvc_things_total 3", "go_goroutines"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
}

func TestTheLogIsJSONWhereNobodyLooks(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, "auto", "info")
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	log.DebugContext(ctx, "hidden")
	log.InfoContext(ctx, "shown")
	if got := out.String(); !strings.HasPrefix(got, "{") || strings.Contains(got, "hidden") || !strings.Contains(got, `"trace_id":"01`) {
		t.Errorf("got %s", got)
	}
}

func TestWhatLibrariesPrintIsForDEBUGAndQuotesNoPeer(t *testing.T) {
	for level, want := range map[string]string{"info": "", "debug": "library: Unsolicited response received on idle HTTP channel starting with "} {
		var out bytes.Buffer
		printer := log.New(foreign{newLogger(&out, "json", level)}, "", 0)
		printer.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "hush\nlevel=ERROR", io.EOF)
		if got := out.String(); !strings.Contains(got, want) || (got == "") != (want == "") || strings.Contains(got, "hush") {
			t.Errorf("at %s: %s", level, got)
		}
	}
}

func TestLoopbackAddressesAreKnown(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "localhost:80": true, "0.0.0.0:80": false, "192.0.2.1:80": false, ":80": false} {
		if got := isLoopback(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
