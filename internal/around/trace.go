package around

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventsvc/eventsvc/internal/event"
)

const instrumentation = "github.com/eventsvc/eventsvc/internal/around"

// Trace makes a CONSUMER span for each attempt: the root of a trace of its own, with a
// link to the context that the event was created in (OpenTelemetry's conventions for
// messaging). A producer's trace would otherwise stay open for as long as a delivery is
// retried.
func Trace(provider trace.TracerProvider) Hook {
	tracer := provider.Tracer(instrumentation)
	return HookFunc(func(ctx context.Context, about event.Context) (context.Context, Exit, error) {
		ctx, span := tracer.Start(ctx, "process deliveries", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer))
		if !span.IsRecording() {
			return ctx, nil, nil
		}
		if created := creation(about.TraceParent); created.IsValid() {
			span.AddLink(trace.Link{SpanContext: created})
		}
		span.SetAttributes(
			attribute.String("messaging.system", "eventsvc"),
			attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", about.Type),
			attribute.String("messaging.destination.subscription.name", about.Receiver),
			attribute.String("messaging.message.id", about.WebhookID),
			attribute.String("cloudevents.event_id", about.EventID.Text(event.EventPrefix)),
			attribute.String("cloudevents.event_type", about.Type),
			attribute.String("eventsvc.delivery.id", about.DeliveryID.Text(event.DeliveryPrefix)),
			attribute.String("eventsvc.target", about.Target),
			attribute.Int("eventsvc.attempt", about.Attempt),
		)
		return ctx, func(r event.Result) error { endSpan(span, &r); return nil }, nil
	})
}

// endSpan says what came of the attempt. A span ends in error where the failure log
// would have a line.
func endSpan(span trace.Span, r *event.Result) {
	v := &r.Verdict
	if v.HTTPStatus != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", v.HTTPStatus))
	}
	span.SetAttributes(attribute.String("eventsvc.status", string(r.Settlement.Status)))
	switch {
	case !r.Recorded:
		span.SetAttributes(attribute.Bool("eventsvc.recorded", false))
		span.SetStatus(codes.Error, "the claim was lost before the outcome could be recorded")
	case v.Failed():
		span.SetAttributes(attribute.String("error.type", string(r.Settlement.Class)))
		// The sentence may quote what the receiver said, and is for the trail alone.
		span.SetStatus(codes.Error, string(r.Settlement.Class))
	}
	span.End()
}

// Within is a context in the trace that an event was created in, for what is called in its
// time: whoever is called is then a part of that trace, where an attempt has one of its own.
func Within(ctx context.Context, traceParent string) context.Context {
	if created := creation(traceParent); created.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, created)
	}
	return ctx
}

// creation is the span context of a traceparent; one that cannot be read is none.
func creation(traceParent string) trace.SpanContext {
	if traceParent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": traceParent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
