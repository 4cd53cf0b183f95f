package registry

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/eventsvc/eventsvc/internal/event"
)

// schema is a JSON Schema (2020-12, unless it says otherwise) that was compiled.
type schema struct{ compiled *jsonschema.Schema }

// schemaURL names a schema to itself, for its own references.
const schemaURL = "eventsvc:schema"

// english words the findings of the library.
var english = message.NewPrinter(language.English)

// compileSchema reads a schema. It is complete in itself: nothing that it refers to is
// fetched from anywhere.
func compileSchema(text []byte) (*schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("is no JSON")
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource(schemaURL, document); err != nil {
		return nil, errors.New(schemaFlaw(err))
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, errors.New(schemaFlaw(err))
	}
	return &schema{compiled}, nil
}

// schemaFlaw is what the library found, in words of ours where it would name its own
// addresses.
func schemaFlaw(err error) string {
	var invalid *jsonschema.SchemaValidationError
	var load *jsonschema.LoadURLError
	var found *jsonschema.ValidationError
	switch {
	case errors.As(err, &load):
		return "refers to " + strings.TrimPrefix(load.URL, schemaURL) + ", and must be complete in itself"
	case errors.As(err, &invalid) && errors.As(invalid.Err, &found):
		leaf := leaves(found)[0]
		return fmt.Sprintf("is no JSON Schema: at %s %s", pointer(leaf.InstanceLocation), leaf.ErrorKind.LocalizedString(english))
	}
	return "is no JSON Schema: " + strings.ReplaceAll(err.Error(), schemaURL, "")
}

// maxFlaws bounds what is told of one value.
const maxFlaws = 20

// check lists where data breaks the schema, below a pointer.
func (s *schema) check(below string, data []byte) event.Flaws {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return event.Flaws{{Pointer: below, Message: "is no JSON"}}
	}
	var found *jsonschema.ValidationError
	if !errors.As(s.compiled.Validate(value), &found) {
		return nil
	}
	var flaws event.Flaws
	for _, leaf := range leaves(found) {
		f := event.Flaw{Pointer: below + pointer(leaf.InstanceLocation), Message: leaf.ErrorKind.LocalizedString(english)}
		if !slices.Contains(flaws, f) && len(flaws) < maxFlaws {
			flaws = append(flaws, f)
		}
	}
	return flaws
}

// leaves are the findings proper, without what only says that something below is wrong.
func leaves(err *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(err.Causes) == 0 {
		return []*jsonschema.ValidationError{err}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range err.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + event.PointerToken(t))
	}
	return b.String()
}
