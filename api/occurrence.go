package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/spelling"
)

// occurrence is an event as CloudEvents 1.0 tells it, in whichever mode it came.
type occurrence struct {
	// attributes are the context attributes by name, extensions included, as text. One
	// that is empty counts as not given.
	attributes map[string]string
	// data is JSON, byte for byte.
	data []byte
	// sum is over all of it as it came, the quick way to know a repeat.
	sum [sha256.Size]byte
}

// specified are the attributes that the specification knows. In the JSON format they are
// strings.
var specified = []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"}

// key stands for source and id, which name one occurrence, where no Idempotency-Key
// does.
func (o *occurrence) key() string {
	source, id := o.attributes["source"], o.attributes["id"]
	return digest(fmt.Sprintf("%d %s%s", len(source), source, id))
}

// keyUnder is the occurrence's key where the key is that of a batch.
func (o *occurrence) keyUnder(batch string) string { return digest(batch + " " + o.key()) }

// digest is any text as a key: visible ASCII, and always the same.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "ce-" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// draft is the occurrence as an event of ours. Flaws are told in its own terms: the
// pointer is that of the attribute in the JSON format.
func (o *occurrence) draft(key string) (*fire.Draft, error) {
	if len(o.data) > event.MaxData {
		return nil, tooMuchData(len(o.data))
	}
	flaws := o.check()
	draft := &fire.Draft{
		Key: key, Body: o.sum, Type: o.attributes["type"], Data: o.data,
		Facts: event.Facts{
			Tenant: o.attributes["tenant"], Subject: o.attributes["subject"], Source: o.attributes["source"],
			CorrelationID: o.attributes["correlationid"], CausationID: o.attributes["causationid"],
		},
		TraceParent: traceParent(spanContext(o.attributes["traceparent"])),
	}
	if at := o.attributes["time"]; at != "" {
		occurred, err := readTime(at)
		if err != nil {
			flaws.Add("/time", "must be "+wanted(typeOf[time.Time]()))
		}
		draft.OccurredAt = occurred
	}
	draft.Metadata = o.metadata(draft.TraceParent != "")
	for _, flaw := range draft.Check() {
		flaws.Add(inOccurrence(flaw.Pointer), flaw.Message)
	}
	return draft, flaws.Err()
}

// check lists what an occurrence must say beside what every event must.
func (o *occurrence) check() (flaws event.Flaws) {
	switch version := o.attributes["specversion"]; version {
	case "1.0":
	case "":
		flaws.Add("/specversion", `is required, and must be "1.0"`)
	default:
		flaws.Add("/specversion", fmt.Sprintf(`must be "1.0", not %q`, clip(version)))
	}
	for _, name := range []string{"id", "source"} {
		if o.attributes[name] == "" {
			flaws.Add("/"+name, "is required: source and id name the event")
		}
	}
	return flaws
}

// metadata keeps, under ce_ and their names, the attributes that have no place of their
// own in an event.
func (o *occurrence) metadata(traced bool) map[string]string {
	kept := maps.Clone(o.attributes)
	for _, name := range []string{"specversion", "source", "type", "subject", "time", "tenant", "correlationid", "causationid"} {
		delete(kept, name)
	}
	if traced {
		delete(kept, "traceparent")
	}
	if media, _, _ := mime.ParseMediaType(kept["datacontenttype"]); media == "application/json" {
		delete(kept, "datacontenttype")
	}
	metadata := map[string]string{}
	for name, value := range kept {
		if value != "" {
			metadata["ce_"+name] = value
		}
	}
	return metadata
}

// inOccurrence is where a flaw of a draft is in the occurrence.
func inOccurrence(pointer string) string {
	switch pointer {
	case "/correlation_id":
		return "/correlationid"
	case "/causation_id":
		return "/causationid"
	case "/metadata":
		return ""
	}
	if extension, ok := strings.CutPrefix(pointer, "/metadata/ce_"); ok {
		return "/" + extension
	}
	return pointer
}

// readTime reads a time as RFC 3339 has it, strictly, at the precision that is kept.
func readTime(s string) (t time.Time, err error) {
	err = t.UnmarshalText([]byte(s))
	return t.UTC().Truncate(time.Microsecond), err
}

// spanContext reads a traceparent of W3C Trace Context. One that cannot be read is no
// reason to refuse an event: it is the zero context.
func spanContext(traceparent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// checkName says what is wrong with the name of an attribute, or is "".
func checkName(name string) string {
	if name != "" && !strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return ""
	}
	return "is no attribute of CloudEvents: their names are of a-z and 0-9" + spelling.DidYouMean(name, slices.Concat(specified, []string{"data", "data_base64"}))
}
