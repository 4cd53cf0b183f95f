package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/spelling"
)

// checkContentType refuses what is not JSON. No content type is taken as JSON, for
// the sake of people at a terminal.
func checkContentType(contentType, encoding string) error {
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		return problem("unsupported-media-type", "send the body without Content-Encoding")
	}
	if contentType == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return problem("unsupported-media-type", fmt.Sprintf("the body is sent as %q; send it as application/json (with curl: -H 'Content-Type: application/json')", clip(contentType)))
	}
	return nil
}

// decode reads a body into a struct, strictly: one JSON object, known members in their
// exact spelling, none twice, values of the right type. A flaw is told with its place
// and what would do.
func decode(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return malformed("the body is empty; it must be one JSON object")
	}
	return fault(json.Unmarshal(body, into, json.RejectUnknownMembers(true)), into)
}

// fault turns an error of the JSON reader into a problem.
func fault(err error, into any) error {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return invalid(event.Flaws{{Pointer: string(syntactic.JSONPointer), Message: "is given twice"}})
	case errors.As(err, &syntactic):
		return malformed(fmt.Sprintf("the body is no JSON: %s at byte %d", reason(syntactic.Err), syntactic.ByteOffset))
	case errors.As(err, &semantic):
		return invalid(event.Flaws{{Pointer: string(semantic.JSONPointer), Message: meaning(semantic, into)}})
	}
	return malformed("the body is no JSON object of this API")
}

func reason(err error) string {
	if err == nil {
		return "it cannot be read"
	}
	return strings.TrimPrefix(err.Error(), "jsontext: ")
}

// meaning says what a value of the wrong meaning would have to be.
func meaning(err *json.SemanticError, into any) string {
	switch {
	case errors.Is(err.Err, json.ErrUnknownName):
		return "is not known here" + spelling.DidYouMean(err.JSONPointer.LastToken(), members(err.GoType, into))
	case err.GoType == nil:
		return "has a value that cannot be read"
	case isTime(err.GoType):
		return "must be " + wanted(err.GoType)
	case err.JSONKind == '"' && err.Err != nil && err.GoType.Kind() != reflect.String:
		return err.Err.Error()
	}
	return fmt.Sprintf("must be %s, not %s", wanted(err.GoType), given(err.JSONKind))
}

// members are the JSON names of a struct's fields.
func members(t reflect.Type, into any) []string {
	if t == nil || t.Kind() != reflect.Struct {
		t = reflect.TypeOf(into).Elem()
	}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[event.Duration]() {
		return `a duration such as "90s", "48h" or "2d"`
	}
	if t == reflect.TypeFor[event.Rate]() {
		return `a rate such as "10/s", "300/m" or "5/10s"`
	}
	if isTime(t) {
		return "a time as in RFC 3339, such as 2027-01-31T12:00:00Z"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a value of another type"
}

func isTime(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[*time.Time]()
}

func given(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "this string"
	case '0':
		return "this number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "this"
}

// splitData takes the member "data" out of an object. What is inside data is only
// carried, so it is held to be JSON and nothing more: names given twice and odd escapes
// pass through.
func splitData(body []byte) (data, rest []byte, err error) { return splitMember(body, "data") }

// lenient takes what RFC 8259 allows and stricter readers do not: names given twice, which
// are the producer's own business, and text that is no Unicode.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

var (
	decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(nothing) }}
	nothing  = strings.NewReader("")
)

// splitMember takes a member out of an object: its bytes exactly as they came, and the rest
// with null in its place.
func splitMember(body []byte, member string) (value, rest []byte, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil, malformed("the body is empty; it must be one JSON object")
	}
	dec := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(dec)
	defer dec.Reset(nothing) // what is read belongs to others
	dec.Reset(bytes.NewBuffer(body), lenient...)
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return nil, nil, fault(err, nil)
		}
		return nil, nil, invalid(event.Flaws{{Pointer: "", Message: "the body must be an object"}})
	}
	begin, end := -1, -1
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, nil, fault(err, nil)
		}
		if token.Kind() == '}' {
			break
		}
		if token.Kind() == '{' {
			continue
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, nil, fault(err, nil)
		}
		if name == member && begin < 0 {
			end = int(dec.InputOffset())
			begin = end - len(value)
		}
	}
	if _, err := dec.ReadToken(); err == nil || !isEOF(err) {
		return nil, nil, malformed("the body holds more than one JSON value")
	}
	if begin < 0 {
		return nil, body, nil
	}
	rest = append(append(append(make([]byte, 0, len(body)-(end-begin)+4), body[:begin]...), "null"...), body[end:]...)
	return body[begin:end:end], rest, nil
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
