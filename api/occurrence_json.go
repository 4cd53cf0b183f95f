package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventsvc/eventsvc/internal/event"
)

// readStructured reads an occurrence in the JSON format (CloudEvents 1.0, JSON Event
// Format). The bytes of data are cut out and kept.
func readStructured(body []byte) (*occurrence, error) {
	data, rest, err := splitData(body)
	if err != nil {
		return nil, err
	}
	members := map[string]jsontext.Value{}
	if err := decode(rest, &members); err != nil {
		return nil, err
	}
	delete(members, "data")
	encoded := members["data_base64"]
	delete(members, "data_base64")
	o := &occurrence{data: data, sum: sha256.Sum256(body)}
	var flaws event.Flaws
	o.attributes = readAttributes(members, &flaws)
	o.readData(encoded, &flaws)
	return o, flaws.Err()
}

// readAttributes takes members as attributes: strings, or booleans and numbers as they
// are written. A null is no attribute.
func readAttributes(members map[string]jsontext.Value, flaws *event.Flaws) map[string]string {
	attributes := make(map[string]string, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		at, value := "/"+event.PointerToken(name), members[name]
		if wrong := checkName(name); wrong != "" {
			flaws.Add(at, wrong)
			continue
		}
		switch kind := value.Kind(); {
		case kind == 'n':
		case kind == '"':
			attributes[name] = text(value)
		case slices.Contains(specified, name):
			flaws.Add(at, "must be a string, not "+given(kind))
		case kind == '{' || kind == '[':
			flaws.Add(at, "must be a string, a boolean or a number, not "+given(kind)+": attributes are flat, and what is not belongs in data")
		default:
			attributes[name] = string(value)
		}
	}
	return attributes
}

// text is the text of a JSON string that was read before.
func text(value jsontext.Value) (s string) {
	if err := json.Unmarshal(value, &s); err != nil {
		panic(err) // the reader has taken it for a string
	}
	return s
}

// readData finds the data, which must be JSON whichever way it comes. An occurrence
// without data has null.
func (o *occurrence) readData(encoded jsontext.Value, flaws *event.Flaws) {
	kind := o.attributes["datacontenttype"]
	inBase64 := len(encoded) > 0 && encoded.Kind() != 'n'
	switch {
	case inBase64 && o.data != nil:
		flaws.Add("/data_base64", "is given beside data: send one of the two")
	case inBase64 && !isJSON(kind):
		flaws.Add("/data_base64", fmt.Sprintf("holds %s, and receivers are sent JSON alone: send data as a JSON value, such as a string with these bytes in base64 or an address to fetch them from, and datacontenttype as application/json", clip(kind)))
	case inBase64:
		o.data = fromBase64(encoded, flaws)
	case !isJSON(kind):
		flaws.Add("/datacontenttype", fmt.Sprintf("is %q, and receivers are sent JSON alone: send data as a JSON value, and datacontenttype as application/json or not at all", clip(kind)))
	case o.data == nil:
		o.data = []byte("null")
	}
}

// fromBase64 is the JSON that comes in base64.
func fromBase64(encoded jsontext.Value, flaws *event.Flaws) []byte {
	if encoded.Kind() != '"' {
		flaws.Add("/data_base64", "must be a string, not "+given(encoded.Kind()))
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(text(encoded))
	if err != nil {
		flaws.Add("/data_base64", "is no base64 (RFC 4648, section 4)")
		return nil
	}
	if err := oneValue(data); err != nil {
		flaws.Add("/data_base64", "must hold one JSON value, as datacontenttype says (none says application/json)")
	}
	return data
}

// isJSON reports whether a datacontenttype says JSON, which none does as well.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, parameters, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(parameters["charset"])
	return err == nil && (strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json")) &&
		(charset == "" || charset == "utf-8" || charset == "us-ascii")
}

// oneValue says why bytes are no JSON text, or is nil. What is inside is only carried.
func oneValue(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), lenient...)
	if err := dec.SkipValue(); err != nil {
		return fault(err, nil)
	}
	if _, err := dec.ReadToken(); !isEOF(err) {
		return malformed("the body holds more than one JSON value")
	}
	return nil
}

// splitArray takes the array of a batch apart: each element exactly as it came.
func splitArray(body []byte, most int, of string) ([][]byte, error) {
	if err := oneValue(body); err != nil {
		return nil, err
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), lenient...)
	if dec.PeekKind() != '[' {
		return nil, invalid(event.Flaws{{Message: "the body must be an array of " + of}})
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, fault(err, nil)
	}
	var elements [][]byte
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, fault(err, nil)
		}
		end := int(dec.InputOffset())
		elements = append(elements, body[end-len(value):end:end])
	}
	return elements, notTooMany(len(elements), most)
}

func notTooMany(events, most int) error {
	if events > most {
		return invalid(event.Flaws{{Message: fmt.Sprintf("the batch holds %d events; at most %d are allowed", events, most)}})
	}
	return nil
}
