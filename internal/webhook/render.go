package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventsvc/eventsvc/internal/event"
)

// render makes the body of an attempt: the same bytes on every attempt (P7), with data
// in it exactly as it was posted.
func (c *Courier) render(f event.Format, e *event.Event) ([]byte, error) {
	if len(e.Data) == 0 {
		return nil, errors.New("the event has no data")
	}
	switch f {
	case event.FormatStandard:
		return standard(e), nil
	case event.FormatRaw, event.FormatCloudEventsBinary:
		return e.Data, nil
	case event.FormatCloudEvents:
		return cloudEvent(e, c.source), nil
	}
	return nil, fmt.Errorf("format %q is not known", f)
}

// known are the formats that can be rendered.
var known = []event.Format{event.FormatStandard, event.FormatCloudEvents, event.FormatCloudEventsBinary, event.FormatRaw}

// lenient takes what RFC 8259 allows and stricter readers do not, as the API did.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// wellFormed says where data is no JSON text (RFC 8259), or is nil. Names given twice
// are the producer's own business.
func wellFormed(data []byte) error {
	if jsontext.Value(data).IsValid(lenient...) {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(data), lenient...)
	if err := d.SkipValue(); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return fmt.Errorf("more than one value")
	}
	return nil
}

func contentType(f event.Format) string {
	if f == event.FormatCloudEvents {
		return "application/cloudevents+json; charset=UTF-8"
	}
	return "application/json"
}

// standard is the payload that Standard Webhooks 1.0 advises.
func standard(e *event.Event) []byte {
	b := make([]byte, 0, len(e.Data)+len(e.Type)+80)
	b = append(b, `{"type":`...)
	b = quote(b, e.Type)
	b = append(b, `,"timestamp":"`...)
	b = e.Occurred().UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","data":`...)
	b = append(b, e.Data...)
	return append(b, '}')
}

// quote appends a JSON string. Only what must be is escaped: what JavaScript or HTML
// would trip over is not ours to change.
func quote(b []byte, s string) []byte {
	out, err := jsontext.AppendQuote(b, s)
	if err != nil {
		// Not UTF-8, which no text of an event is: then with replacement characters.
		encoded, _ := json.Marshal(s)
		return append(b, encoded...)
	}
	return out
}
