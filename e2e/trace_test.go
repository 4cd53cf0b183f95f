package e2e

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// An attempt is a trace of its own, linked to the one that the event came in with, and
// its receiver is told of the attempt's span alone.
func TestAnAttemptIsTracedAndLinkedToItsEventsCreation(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var exported bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		io.Copy(&exported, r.Body)
	}))
	t.Cleanup(collector.Close)
	p := start(t, pgtest.URL(t), []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_METRICS_EXPORTER=none"}, "serve")
	s := open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	const producers = "0af7651916cd43dd8448eb211c80319c"
	fired := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1}`, "Idempotency-Key", "k",
		"traceparent", "00-"+producers+"-b7ad6b7169203331-01", "tracestate", "vendor=secret", "baggage", "user=secret")
	w := s.next(t)
	p.settled(t, fired.at("deliveries.0.id"), "succeeded")
	parts := strings.Split(w.header.Get("Traceparent"), "-")
	if len(parts) != 4 || parts[1] == producers || w.header.Get("Tracestate") != "" || w.header.Get("Baggage") != "" {
		t.Errorf("the receiver got %v", w.header)
	}
	// A CloudEvent brings the trace that it began in with it.
	const begun = "4bf92f3577b34da6a3ce929d0e0e4736"
	fired = p.call(t, "POST", "/v1/events", `1`, "ce-specversion", "1.0", "ce-id", "7", "ce-source", "/s", "ce-type", "a.b", "ce-traceparent", "00-"+begun+"-00f067aa0ba902b7-01")
	s.next(t)
	p.settled(t, fired.at("deliveries.0.id"), "succeeded")
	if code := p.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, id := range []string{producers, begun, parts[1], parts[2]} {
		raw, err := hex.DecodeString(id)
		if err != nil || !bytes.Contains(exported.Bytes(), raw) {
			t.Errorf("%s was not exported", id)
		}
	}
	for _, name := range []string{"process deliveries", "send a.b", "POST /v1/events"} {
		if !bytes.Contains(exported.Bytes(), []byte(name)) {
			t.Errorf("there is no span %q", name)
		}
	}
}

// Who is told after the commit is told in the trace that the event came in with.
func TestAReceiverThatIsToldAfterTheCommitIsPartOfTheEventsTrace(t *testing.T) {
	t.Parallel()
	p, s := start(t, pgtest.URL(t), nil, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","mode":"on_commit"}`)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1}`, "Idempotency-Key", "k", "traceparent", "00-"+trace+"-b7ad6b7169203331-01", "tracestate", "vendor=secret")
	if w := s.next(t); !strings.HasPrefix(w.header.Get("Traceparent"), "00-"+trace+"-") || w.header.Get("Tracestate") != "" {
		t.Errorf("with a trace: %v", w.header)
	}
	p.call(t, "POST", "/v1/events", `{"type":"a.b","data":2}`, "Idempotency-Key", "l", "traceparent", "00-nonsense-01")
	if w := s.next(t); strings.Contains(w.header.Get("Traceparent"), "nonsense") {
		t.Errorf("with one that cannot be read: %v", w.header)
	}
}
