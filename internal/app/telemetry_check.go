package app

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// checkTelemetry refuses OTEL_* settings that could only be misspelt: the SDK would fall
// back to something else, and what was meant to be seen would be missing in silence.
func checkTelemetry(env func(string) string) error {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return nil
	}
	return cmp.Or(
		oneOfIfSet(env, "OTEL_TRACES_EXPORTER", "otlp", "console", "none"),
		oneOfIfSet(env, "OTEL_METRICS_EXPORTER", "otlp", "console", "none", "prometheus"),
		oneOfIfSet(env, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
		oneOfIfSet(env, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "http/protobuf"),
		oneOfIfSet(env, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc", "http/protobuf"),
		addressIfSet(env, "OTEL_EXPORTER_OTLP_ENDPOINT"),
		addressIfSet(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
		addressIfSet(env, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
		oneOfIfSet(env, "OTEL_TRACES_SAMPLER", "always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"),
		checkRatio(env),
	)
}

func oneOfIfSet(env func(string) string, name string, allowed ...string) error {
	if v := env(name); v != "" && !slices.Contains(allowed, v) {
		return badSetting(name, "is %q, and must be %s", v, strings.Join(allowed, " or "))
	}
	return nil
}

func addressIfSet(env func(string) string, name string) error {
	v := env(name)
	if v == "" {
		return nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return badSetting(name, "must be the http or https URL of a collector, such as http://localhost:4318")
	}
	return nil
}

func checkRatio(env func(string) string) error {
	if !strings.HasSuffix(env("OTEL_TRACES_SAMPLER"), "traceidratio") || env("OTEL_TRACES_SAMPLER_ARG") == "" {
		return nil
	}
	ratio, err := strconv.ParseFloat(env("OTEL_TRACES_SAMPLER_ARG"), 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		return badSetting("OTEL_TRACES_SAMPLER_ARG", "must be a ratio from 0 to 1")
	}
	return nil
}
