package around

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Builtin is the hook that every process has: the span, then the log's context, then
// the meters. Recovery from panics has no Enter and Exit of its own: a pair of calls
// cannot catch what happens between them, so [Attempt] does it (recover.go).
func Builtin(traces trace.TracerProvider, meters metric.MeterProvider) (Hook, error) {
	meter, err := Meter(meters)
	if err != nil {
		return nil, err
	}
	return Stack(Trace(traces), Log(), meter), nil
}
