package around

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/eventsvc/eventsvc/internal/event"
)

// DurationBuckets are those of OpenTelemetry's conventions, in seconds.
var DurationBuckets = []float64{0.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}

// Meter counts attempts and times them, by outcome, status and class. Neither a target
// nor an address is ever a label: there may be any number of them.
func Meter(provider metric.MeterProvider) (Hook, error) {
	meter := provider.Meter(instrumentation)
	attempts, err1 := meter.Int64Counter("eventsvc.deliveries.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts that ended, by what they came to."))
	seconds, err2 := meter.Float64Histogram("eventsvc.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("How long attempts took."), metric.WithExplicitBucketBoundaries(DurationBuckets...))
	m := &meters{attempts: attempts, seconds: seconds}
	_, err3 := meter.Int64ObservableUpDownCounter("eventsvc.attempts.active", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts under way."), metric.WithInt64Callback(m.observe))
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return nil, fmt.Errorf("make the meters of attempts: %w", err)
		}
	}
	return HookFunc(m.enter), nil
}

type meters struct {
	attempts metric.Int64Counter
	seconds  metric.Float64Histogram
	active   atomic.Int64
	labels   Labels[labelKey]
}

func (m *meters) enter(ctx context.Context, _ event.Context) (context.Context, Exit, error) {
	m.active.Add(1)
	return ctx, func(r event.Result) error {
		m.active.Add(-1)
		labels := m.labels.For(labelsOf(&r), labelKey.labels)
		m.attempts.Add(ctx, 1, labels)
		m.seconds.Record(ctx, r.Verdict.Duration.Seconds(), labels)
		return nil
	}, nil
}

func (m *meters) observe(_ context.Context, o metric.Int64Observer) error {
	o.Observe(m.active.Load())
	return nil
}

// labelKey is one of the few combinations of labels there are.
type labelKey struct {
	outcome event.Outcome
	status  event.Status
	class   event.Class
}

// labelsOf is what an attempt came to; what is not recorded came to nothing that is known.
func labelsOf(r *event.Result) labelKey {
	if !r.Recorded {
		return labelKey{outcome: event.OutcomeUnknown}
	}
	return labelKey{r.Settlement.Outcome, r.Settlement.Status, r.Settlement.Class}
}

func (k labelKey) labels() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("outcome", string(k.outcome)), attribute.String("status", string(k.status)), attribute.String("class", string(k.class))}
}
