package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventsvc/eventsvc/internal/event"
)

var update = flag.Bool("update", false, "write the golden files anew")

// seen is a request as a receiver saw it.
type seen struct {
	header http.Header
	body   []byte
}

func receive(t *testing.T, tlsToo bool) (*httptest.Server, chan seen) {
	t.Helper()
	got := make(chan seen, 10)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		body.ReadFrom(r.Body)
		got <- seen{r.Header, body.Bytes()}
	})
	if tlsToo {
		s := httptest.NewUnstartedServer(handler)
		s.Config.ErrorLog = nil
		s.StartTLS()
		t.Cleanup(s.Close)
		return s, got
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s, got
}

// Contract, section 4: what a receiver is sent.
func TestARequestCarriesTheContractsHeadersAndAValidSignature(t *testing.T) {
	server, got := receive(t, false)
	claim := claimFor(server.URL, func(r *event.Receiver) { r.Headers = map[string]string{"X-Shop": "7", "webhook-id": "forged"} })
	claim.Attempts, claim.DueAt = 2, noon
	claim.Event.CorrelationID = "grüße\nan %"
	claim.To.Name = "eu"
	claim.To.Receiver.Key = "shop.mail"
	traced := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: must(trace.ParseTraceState("a=b"))}))
	if v := courier(t).Attempt(traced, claim); v.Ruling != event.Success {
		t.Fatal(v)
	}
	s := <-got
	id := claim.Delivery.Text(event.DeliveryPrefix)
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "eventsvc/test", "X-Shop": "7", "Webhook-Id": id,
		"Eventsvc-Event-Id": claim.Event.ID.Text(event.EventPrefix), "Eventsvc-Event-Type": "order.placed", "Eventsvc-Delivery-Id": id,
		"Eventsvc-Receiver": "shop.mail", "Eventsvc-Target": "eu", "Eventsvc-Attempt": "3", "Eventsvc-Max-Attempts": "20",
		"Eventsvc-Due-At": "2026-06-01T12:00:00Z", "Eventsvc-Correlation-Id": "gr%C3%BC%C3%9Fe%0Aan%20%25",
		"Traceparent": "00-01000000000000000000000000000000-0200000000000000-01", "Tracestate": "", "Baggage": "", "Accept-Encoding": "",
	} {
		if values := s.header.Values(name); strings.Join(values, "|") != want {
			t.Errorf("%s is %q, want %q", name, values, want)
		}
	}
	oracle := must(standardwebhooks.NewWebhook(claim.To.Signers[0].Reveal()))
	if err := oracle.Verify(s.body, s.header); err != nil {
		t.Errorf("the reference library says: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// P7.
func TestEveryAttemptHasTheSameIDAndBytes(t *testing.T) {
	server, got := receive(t, false)
	c, claim := courier(t), claimFor(server.URL)
	attempt(t, c, claim)
	first := <-got
	claim.Attempts++
	attempt(t, c, claim)
	second := <-got
	if first.header.Get("Webhook-Id") != second.header.Get("Webhook-Id") || !bytes.Equal(first.body, second.body) {
		t.Errorf("got %v and %v", first, second)
	}
	claim.Sending = 2
	attempt(t, c, claim)
	if replayed := <-got; replayed.header.Get("Webhook-Id") != first.header.Get("Webhook-Id")+"_2" {
		t.Errorf("a replay has the id %s", replayed.header.Get("Webhook-Id"))
	}
}

func TestTraceFalseSendsNoTraceparent(t *testing.T) {
	server, got := receive(t, false)
	claim := claimFor(server.URL, func(r *event.Receiver) { r.Trace = false })
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	courier(t).Attempt(ctx, claim)
	if s := <-got; s.header.Get("Traceparent") != "" {
		t.Errorf("sent %s", s.header.Get("Traceparent"))
	}
}

// The bytes of a published format never change: a change would be another format.
func TestFormatsAreFrozen(t *testing.T) {
	c := New(Options{})
	e := &event.Event{
		Type: "order.placed", RecordedAt: noon, Data: []byte("{ \"b\":1, \"a\": 123456789012345678901234567890.50, \"s\":\"<&>\\u2028\u2028\" }"),
		Facts: event.Facts{OccurredAt: noon.Add(123456 * time.Microsecond), Subject: "order/7 \"ü\"", Source: "shop"},
	}
	copy(e.ID[:], []byte{1, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77, 0x4b, 0xbc, 0xce, 0xb3, 2, 9, 0x9a, 0x80, 0x57})
	for _, f := range []event.Format{event.FormatStandard, event.FormatCloudEvents, event.FormatCloudEventsBinary, event.FormatRaw} {
		body, err := c.render(f, e)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		got.WriteString("content-type: " + contentType(f) + "\n")
		if f == event.FormatCloudEventsBinary {
			h := http.Header{}
			cloudEventHeaders(func(name, value string) { h.Set(name, value) }, e, c.source)
			h.Write(&got)
		}
		got.WriteString("\n")
		got.Write(body)
		file := filepath.Join("testdata", string(f)+".golden")
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s is\n%s\nwant\n%s\n%v", f, got.Bytes(), want, err)
		}
	}
}

func TestTLSIsVerified(t *testing.T) {
	server, _ := receive(t, true)
	v := attempt(t, courier(t), claimFor(server.URL))
	if v.Class != event.ClassTLS || !strings.Contains(v.Reason, "signed by nobody") {
		t.Errorf("self-signed: got %+v", v)
	}
	plain, _ := receive(t, false)
	if v := attempt(t, courier(t), claimFor(strings.Replace(plain.URL, "http:", "https:", 1))); v.Class != event.ClassTLS {
		t.Errorf("no TLS at all: got %+v", v)
	}
	server.TLS.MaxVersion = tls.VersionTLS11
	if v := attempt(t, courier(t), claimFor(server.URL)); v.Class != event.ClassTLS {
		t.Errorf("TLS 1.1: got %+v", v)
	}
}
