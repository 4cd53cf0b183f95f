package webhook

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/eventsvc/eventsvc/internal/event"
)

// heard is a request as a receiver with the CloudEvents SDK reads it, and as it came.
type heard struct {
	seen
	ce  *ce.Event
	err error
}

func receiveCloudEvents(t *testing.T) (string, chan heard) {
	t.Helper()
	got := make(chan heard, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		e, err := cehttp.NewEventFromHTTPRequest(r)
		got <- heard{seen{r.Header, body}, e, err}
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// decodeOnce undoes the percent-encoding of headers (HTTP binding, section 3.1.3.2),
// which the SDK leaves to its callers.
func decodeOnce(t *testing.T, value string) string {
	t.Helper()
	decoded, err := url.PathUnescape(value)
	if err != nil {
		t.Error(err)
	}
	return decoded
}

// T130: the reference SDK reads both formats, and the same event out of either.
func TestCloudEventsAreThoseOfTheSpecification(t *testing.T) {
	const data = "{ \"b\":1, \"a\": 123456789012345678901234567890.50, \"s\":\"\\u2028\u2028<&>\" }"
	for name, c := range map[string]struct {
		source, subject string
		want            string // source as a URI reference
	}{
		"as short as can be": {"", "", "eventsvc"},
		"a name":             {"shop", "order/7", "shop"},
		"a URL":              {"https://shop.example.com/eu?x=1&y=(2)#top", "a b", "https://shop.example.com/eu?x=1&y=(2)#top"},
		"encoded already":    {"https://shop.example.com/a%20b%2Fc", "100%25", "https://shop.example.com/a%20b%2Fc"},
		"a URN":              {"urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", "100%", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"},
		"spaces":             {"https://shop.example.com/my shop", `a "quoted" \ subject`, "https://shop.example.com/my%20shop"},
		"beyond ASCII":       {"/läden/東京 🏬", "Grüße, 東京 🏬", "/l%C3%A4den/%E6%9D%B1%E4%BA%AC%20%F0%9F%8F%AC"},
		"half encoded":       {"/100%/a%20b", "%", "/100%25/a%20b"},
	} {
		for _, format := range []event.Format{event.FormatCloudEvents, event.FormatCloudEventsBinary} {
			address, got := receiveCloudEvents(t)
			claim := claimFor(address, func(r *event.Receiver) { r.Format = format })
			claim.Event.Data, claim.Event.Source, claim.Event.Subject = []byte(data), c.source, c.subject
			claim.Event.OccurredAt = noon.Add(123456 * time.Microsecond)
			if v := attempt(t, courier(t), claim); v.Ruling != event.Success {
				t.Fatal(v)
			}
			h := <-got
			if h.err != nil {
				t.Errorf("%s, %s: %v", name, format, h.err)
				continue
			}
			source, subject := h.ce.Source(), h.ce.Subject()
			if format == event.FormatCloudEventsBinary {
				source, subject = decodeOnce(t, source), decodeOnce(t, subject)
			}
			if err := h.ce.Validate(); err != nil || source != c.want || subject != c.subject {
				t.Errorf("%s, %s: source %q and subject %q, want %q and %q; %v", name, format, source, subject, c.want, c.subject, err)
			}
			if h.ce.SpecVersion() != "1.0" || h.ce.ID() != claim.Event.ID.Text(event.EventPrefix) || h.ce.Type() != "order.placed" ||
				!h.ce.Time().Equal(claim.Event.OccurredAt) || h.ce.DataContentType() != "application/json" || len(h.ce.Extensions()) != 0 {
				t.Errorf("%s, %s: got %v", name, format, h.ce)
			}
			if string(h.ce.Data()) != data {
				t.Errorf("%s, %s: data is %s", name, format, h.ce.Data())
			}
		}
	}
}

// HTTP binding, section 3.1.1 and 3.1.3: the type of data has a header of its own, and
// values are visible ASCII.
func TestTheBinaryModeKeepsToWhatHeadersMayHold(t *testing.T) {
	address, got := receiveCloudEvents(t)
	claim := claimFor(address, func(r *event.Receiver) { r.Format = event.FormatCloudEventsBinary })
	claim.Event.Subject = `Grüße "東京" 100% ~!`
	attempt(t, courier(t), claim)
	h := <-got
	if v := h.header.Get("Ce-Subject"); v != "Gr%C3%BC%C3%9Fe%20%22%E6%9D%B1%E4%BA%AC%22%20100%25%20~!" {
		t.Errorf("Ce-Subject is %s", v)
	}
	if _, given := h.header["Ce-Datacontenttype"]; given || h.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %v", h.header)
	}
	for name, values := range h.header {
		if strings.HasPrefix(name, "Ce-") && (len(values) != 1 || strings.ContainsFunc(values[0], func(r rune) bool { return r < '!' || r > '~' || r == '"' })) {
			t.Errorf("%s is %q", name, values)
		}
	}
}

// RFC 3986: any text becomes a URI reference, and one that is one stays itself.
func TestAnySourceIsAReference(t *testing.T) {
	for source, want := range map[string]string{
		"https://user@shop.example.com:8443/a;b=c,d/%2e?q=/?#f/?": "https://user@shop.example.com:8443/a;b=c,d/%2e?q=/?#f/?",
		"http://[::1]:80/":   "http://[::1]:80/",
		"mailto:a@b.example": "mailto:a@b.example",
		"../a":               "../a",
		"//shop.example.com": "//shop.example.com",
		"a[1]":               "a%5B1%5D",
		"a#b#c":              "a#b%23c",
		"a\nb":               "a%0Ab",
		"7:shop":             "7%3Ashop",
		"http://[shop":       "http%3A%2F%2F%5Bshop",
		"<shop>|{}^`\\":      "%3Cshop%3E%7C%7B%7D%5E%60%5C",
		"%":                  "%25",
		"%2":                 "%252",
		"%zz%41":             "%25zz%41",
	} {
		got := reference(source)
		if got != want || reference(got) != got {
			t.Errorf("%q is %q, and %q again; want %q", source, got, reference(got), want)
		}
		if _, err := url.Parse(got); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
}
