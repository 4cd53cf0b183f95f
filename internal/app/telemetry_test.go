package app

import (
	"errors"
	"strings"
	"testing"
)

func TestMisspeltTelemetryIsRefusedByName(t *testing.T) {
	check := func(name, value string) error {
		set := map[string]string{name: value}
		if name == "OTEL_TRACES_SAMPLER_ARG" {
			set["OTEL_TRACES_SAMPLER"] = "parentbased_traceidratio"
		}
		return checkTelemetry(func(n string) string { return set[n] })
	}
	for _, c := range []struct{ name, good, bad string }{
		{"OTEL_TRACES_EXPORTER", "otlp", "oltp"},
		{"OTEL_METRICS_EXPORTER", "prometheus", "Prometheus"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "http"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318", "localhost:4318"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://otel.example.com/v1/traces", "https://"},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:4317", "ftp://otel.example.com"},
		{"OTEL_TRACES_SAMPLER", "always_off", "sometimes"},
		{"OTEL_TRACES_SAMPLER_ARG", "0.25", "NaN"},
		{"OTEL_TRACES_SAMPLER_ARG", "1", "1.01"},
	} {
		if err := check(c.name, c.good); err != nil {
			t.Errorf("%s=%s: %v", c.name, c.good, err)
		}
		var config ConfigError
		if err := check(c.name, c.bad); !errors.As(err, &config) || !strings.HasPrefix(err.Error(), c.name+" ") {
			t.Errorf("%s=%s: %v", c.name, c.bad, err)
		}
	}
	if err := checkTelemetry(func(string) string { return "" }); err != nil {
		t.Errorf("nothing set: %v", err)
	}
}

// /metrics is served on the API's port; another would be opened for anybody.
func TestPrometheusAsAnExporterOpensNoPort(t *testing.T) {
	t.Setenv("OTEL_METRICS_EXPORTER", "prometheus")
	if exporting("METRICS") {
		t.Error("it is exported a second time")
	}
}
