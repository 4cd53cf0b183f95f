package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/semconv/v1.40.0/httpconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventsvc/eventsvc/internal/around"
)

// meter counts and times requests as OpenTelemetry's conventions for HTTP servers have it,
// and names the route on a request's span. The instrumentation around the router cannot
// know the route, and makes the labels of each request anew, which is a tenth of what a
// fire costs: here they are made once for each of the few combinations that there are. The
// host that was asked for is none of them, as anybody may make up any.
type meter struct {
	seconds  httpconv.ServerRequestDuration
	received httpconv.ServerRequestBodySize
	sent     httpconv.ServerResponseBodySize
	labels   around.Labels[combination]
}

func newMeter(provider metric.MeterProvider) (*meter, error) {
	of := provider.Meter("github.com/eventsvc/eventsvc/api")
	var m meter
	var err1, err2, err3 error
	m.seconds, err1 = httpconv.NewServerRequestDuration(of, metric.WithExplicitBucketBoundaries(around.DurationBuckets...))
	m.received, err2 = httpconv.NewServerRequestBodySize(of)
	m.sent, err3 = httpconv.NewServerResponseBodySize(of)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return nil, fmt.Errorf("make the meters of requests: %w", err)
		}
	}
	return &m, nil
}

// combination is what a request's labels are made of.
type combination struct {
	method, route, version string
	status                 int
}

// measured measures what goes through it, unless it is asked every few seconds. It is to
// be within whatever replaces a request by another, since the route is written into that.
func (m *meter) measured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Quiet(r) {
			next.ServeHTTP(w, r)
			return
		}
		began := time.Now()
		written := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		next.ServeHTTP(written, r)
		ctx := r.Context()
		if span := trace.SpanFromContext(ctx); span.IsRecording() && r.Pattern != "" {
			span.SetName(r.Method + " " + r.Pattern)
			span.SetAttributes(semconv.HTTPRoute(r.Pattern))
		}
		status := written.Status()
		if status == 0 {
			status = http.StatusOK // which is what the server says for who says nothing
		}
		labels := m.labels.For(combination{standard(r.Method), r.Pattern, version(r), status}, combination.labels)
		m.seconds.Inst().Record(ctx, time.Since(began).Seconds(), labels)
		m.sent.Inst().Record(ctx, int64(written.BytesWritten()), labels)
		if r.ContentLength >= 0 {
			// As the caller declared it, whether it was read or not: anybody may declare anything.
			m.received.Inst().Record(ctx, min(r.ContentLength, maxBulkBytes+1), labels)
		}
	})
}

func (c combination) labels() []attribute.KeyValue {
	all := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(c.method), semconv.URLScheme("http"), semconv.HTTPResponseStatusCode(c.status),
		semconv.NetworkProtocolName("http"), semconv.NetworkProtocolVersion(c.version)}
	if c.route != "" {
		all = append(all, semconv.HTTPRoute(c.route))
	}
	return all
}

// standard is a method of HTTP's own, or the one name for all others: anybody may make up
// any.
func standard(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "_OTHER"
}

// version is that of HTTP. Of minor ones anybody may make up some: there are two.
func version(r *http.Request) string {
	switch {
	case r.ProtoMajor == 2:
		return "2"
	case r.ProtoAtLeast(1, 1):
		return "1.1"
	}
	return "1.0"
}

// Quiet reports whether a request is one of those that come every few seconds: they are
// neither measured nor traced.
func Quiet(r *http.Request) bool {
	return r.URL.Path == "/livez" || r.URL.Path == "/readyz" || r.URL.Path == "/metrics"
}
