package around

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Labels are those of a meter, made once for each of the few combinations that there are:
// to make them anew costs more than all the rest of a measurement. The zero value is ready.
type Labels[K comparable] struct {
	made sync.Map // K -> metric.MeasurementOption
}

// For are the labels of a combination, which of tells where they are not made yet.
func (l *Labels[K]) For(k K, of func(K) []attribute.KeyValue) metric.MeasurementOption {
	if made, ok := l.made.Load(k); ok {
		return made.(metric.MeasurementOption)
	}
	made := metric.WithAttributeSet(attribute.NewSet(of(k)...))
	l.made.Store(k, made)
	return made
}
