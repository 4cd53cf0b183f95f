package webhook

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/eventsvc/eventsvc/internal/event"
)

// maxOwnHeaders is how many headers of ours most attempts have; more are no harm.
const maxOwnHeaders = 20

// writeHeaders sets every header of an attempt: the receiver's static ones first, so
// that none of them can stand in for ours.
func (c *Courier) writeHeaders(h http.Header, ctx context.Context, claim *event.Claim, body []byte, now time.Time) {
	about := claim.Context()
	to := claim.To.Receiver
	for name, value := range to.Headers {
		h.Set(name, value)
	}
	for name, value := range claim.To.Headers {
		h.Set(name, value)
	}
	values := make([]string, 0, maxOwnHeaders)
	set := func(name, value string) { // in its canonical form
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("User-Agent", c.agent)
	set("Content-Type", contentType(claim.Format))
	if claim.Format == event.FormatCloudEventsBinary {
		cloudEventHeaders(set, &claim.Event, c.source)
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	set("Webhook-Id", about.WebhookID)
	set("Webhook-Timestamp", stamp)
	set("Webhook-Signature", sign(claim.To.Signers, claim.To.Keys, about.WebhookID, stamp, body))
	if about.Test {
		set("Eventsvc-Test", "true")
	}
	set("Eventsvc-Event-Id", about.EventID.Text(event.EventPrefix))
	set("Eventsvc-Event-Type", about.Type)
	set("Eventsvc-Delivery-Id", about.DeliveryID.Text(event.DeliveryPrefix))
	set("Eventsvc-Receiver", about.Receiver)
	set("Eventsvc-Attempt", strconv.Itoa(about.Attempt))
	set("Eventsvc-Max-Attempts", strconv.Itoa(about.MaxAttempts))
	set("Eventsvc-Correlation-Id", visible(about.CorrelationID))
	if about.Target != "" {
		set("Eventsvc-Target", visible(about.Target))
	}
	if !about.DueAt.IsZero() {
		set("Eventsvc-Due-At", about.DueAt.UTC().Format(time.RFC3339Nano))
	}
	if span := trace.SpanContextFromContext(ctx); to.Trace && span.IsValid() {
		// traceparent alone: tracestate and baggage are the platform's own business.
		set("Traceparent", "00-"+span.TraceID().String()+"-"+span.SpanID().String()+"-"+(span.TraceFlags()&trace.FlagsSampled).String())
	}
}

// visible makes any text a header's value: what is not visible ASCII, and %, is
// percent-encoded, so that a producer's text can neither break the request nor be lost.
func visible(s string) string {
	plain := func(b byte) bool { return b > ' ' && b <= '~' && b != '%' }
	clean := true
	for i := range len(s) {
		clean = clean && plain(s[i])
	}
	if clean {
		return s
	}
	var out strings.Builder
	for i := range len(s) {
		if plain(s[i]) {
			out.WriteByte(s[i])
			continue
		}
		escape(&out, s[i])
	}
	return out.String()
}
