package api

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eventsvc/eventsvc/internal/event"
)

// prefix of the headers that carry attributes, as Go spells headers.
const cePrefix = "Ce-"

// readBinary reads an occurrence in the binary mode of the HTTP binding: attributes in
// ce-* headers, the type of data in Content-Type, and data as the body. An empty body
// is null.
func readBinary(header http.Header, body []byte) (*occurrence, error) {
	kind := header.Get("Content-Type")
	if err := checkContentType(kind, header.Get("Content-Encoding")); err != nil {
		return nil, err
	}
	if !isJSON(kind) {
		return nil, problem("unsupported-media-type", fmt.Sprintf("the data is sent as %q; send it as application/json, in UTF-8", clip(kind)))
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("null")
	} else if err := oneValue(body); err != nil {
		return nil, err
	}
	var flaws event.Flaws
	o := &occurrence{data: body, attributes: readHeaders(header, &flaws)}
	if kind != "" {
		o.attributes["datacontenttype"] = kind
	}
	o.sum = o.digest()
	return o, flaws.Err()
}

// digest is over the attributes and data of an occurrence that came in parts.
func (o *occurrence) digest() [sha256.Size]byte {
	all := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(o.attributes)) {
		fmt.Fprintf(all, "%s %d %s ", name, len(o.attributes[name]), o.attributes[name])
	}
	all.Write(o.data)
	return [sha256.Size]byte(all.Sum(nil))
}

// readHeaders takes ce-* headers as attributes.
func readHeaders(header http.Header, flaws *event.Flaws) map[string]string {
	attributes := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		attribute, ok := strings.CutPrefix(name, cePrefix)
		if !ok {
			continue
		}
		attribute = strings.ToLower(attribute)
		at := "/" + event.PointerToken(attribute)
		if wrong := checkName(attribute); wrong != "" {
			flaws.Add(at, wrong)
			continue
		}
		switch value, ok := readHeaderValue(header[name][0]); {
		case attribute == "data" || attribute == "datacontenttype":
			flaws.Add(at, "is given as a header: the data is the body, and Content-Type is its type")
		case len(header[name]) > 1:
			flaws.Add(at, "is given twice")
		case !ok:
			flaws.Add(at, "must be UTF-8, percent-encoded where it is not visible ASCII")
		default:
			attributes[attribute] = value
		}
	}
	return attributes
}

// readHeaderValue undoes what the HTTP binding (section 3.1.3.2) does to a value: the
// quotes, then one round of percent-encoding. A percent sign that begins no encoded
// byte, and text beyond ASCII, come from senders that do not encode, and stand for
// themselves. It reports whether the value is UTF-8.
func readHeaderValue(s string) (string, bool) {
	s = strings.TrimSpace(s)
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		s = unquote(s[1 : len(s)-1])
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if high, low, ok := encodedByte(s[i:]); ok {
			out = append(out, high<<4|low)
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return string(out), utf8.Valid(out)
}

// unquote drops the backslashes of a quoted string (RFC 9110, section 5.6.4).
func unquote(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out = append(out, s[i])
	}
	return string(out)
}

// encodedByte reads %XX at the beginning of a text.
func encodedByte(s string) (high, low byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, 0, false
	}
	high, okHigh := digit(s[1])
	low, okLow := digit(s[2])
	return high, low, okHigh && okLow
}

func digit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
