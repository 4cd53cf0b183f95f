package around

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/eventsvc/eventsvc/internal/event"
)

type aboutKey struct{}

// Log puts the ids of the attempt on every line that is logged with its context,
// through a [LogHandler].
func Log() Hook {
	return HookFunc(func(ctx context.Context, about event.Context) (context.Context, Exit, error) {
		return context.WithValue(ctx, aboutKey{}, &about), nil, nil
	})
}

// LogHandler adds to each line the ids of the attempt and the trace that its context
// belongs to.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if about, ok := ctx.Value(aboutKey{}).(*event.Context); ok {
		r.AddAttrs(
			slog.String("delivery", about.DeliveryID.Text(event.DeliveryPrefix)),
			slog.String("event", about.EventID.Text(event.EventPrefix)),
			slog.String("type", about.Type),
			slog.String("receiver", about.Receiver),
			slog.Int("attempt", about.Attempt),
		)
		if about.Target != "" {
			r.AddAttrs(slog.String("target", about.Target))
		}
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}
