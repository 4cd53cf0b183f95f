package webhook

import (
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// cloudEvent is the event in CloudEvents 1.0's JSON format, with the standard
// attributes and no others.
func cloudEvent(e *event.Event, source string) []byte {
	b := make([]byte, 0, len(e.Data)+300)
	b = append(b, `{"specversion":"1.0","id":`...)
	b = quote(b, e.ID.Text(event.EventPrefix))
	b = append(b, `,"source":`...)
	b = quote(b, sourceOf(e, source))
	b = append(b, `,"type":`...)
	b = quote(b, e.Type)
	if e.Subject != "" {
		b = append(b, `,"subject":`...)
		b = quote(b, e.Subject)
	}
	b = append(b, `,"time":"`...)
	b = e.Occurred().UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","datacontenttype":"application/json","data":`...)
	b = append(b, e.Data...)
	return append(b, '}')
}

// sourceOf is the event's source, or the fallback, as a URI reference, which CloudEvents
// asks for.
func sourceOf(e *event.Event, fallback string) string {
	if e.Source == "" {
		return reference(fallback)
	}
	return reference(e.Source)
}

// cloudEventHeaders are the attributes in CloudEvents' binary mode; the body is data
// alone, and Content-Type is its type.
func cloudEventHeaders(set func(name, value string), e *event.Event, source string) {
	set("Ce-Specversion", "1.0")
	set("Ce-Id", e.ID.Text(event.EventPrefix))
	set("Ce-Source", ceValue(sourceOf(e, source)))
	set("Ce-Type", e.Type)
	set("Ce-Time", e.Occurred().UTC().Format(time.RFC3339Nano))
	if e.Subject != "" {
		set("Ce-Subject", ceValue(e.Subject))
	}
}

// ceValue percent-encodes as the HTTP binding asks (section 3.1.3.2): space, double
// quote, percent and all outside U+0021 to U+007E, on UTF-8 bytes.
func ceValue(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] == '"' {
			out = append(out, "%22"...)
			continue
		}
		out = append(out, visible(s[i:i+1])...)
	}
	return string(out)
}
