package registry

import (
	"bytes"
	"errors"
	"fmt"
	"github.com/go-json-experiment/json/jsontext"
	"slices"
	"strconv"
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
func compileSchema(text []byte) (made *schema, err error) {
	if flaws := unwieldy("", text); len(flaws) > 0 {
		return nil, errors.New("holds a number that " + flaws[0].Message)
	}
	defer func() {
		if recover() != nil {
			made, err = nil, errors.New("cannot be read as a JSON Schema")
		}
	}()
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
func (s *schema) check(below string, data []byte) (flaws event.Flaws) {
	if flaws := ambiguous(below, data); len(flaws) > 0 {
		return flaws
	}
	if flaws := unwieldy(below, data); len(flaws) > 0 {
		return flaws
	}
	// The data is a stranger's: whatever it makes the library do is no more than a flaw.
	defer func() {
		if recover() != nil {
			flaws = event.Flaws{{Pointer: below, Message: "cannot be held to the schema of its type"}}
		}
	}()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return event.Flaws{{Pointer: below, Message: "is no JSON"}}
	}
	var found *jsonschema.ValidationError
	if !errors.As(s.compiled.Validate(value), &found) {
		return nil
	}
	for _, leaf := range leaves(found) {
		f := event.Flaw{Pointer: below + pointer(leaf.InstanceLocation), Message: leaf.ErrorKind.LocalizedString(english)}
		if !slices.Contains(flaws, f) && len(flaws) < maxFlaws {
			flaws = append(flaws, f)
		}
	}
	return flaws
}

// ambiguous tells of what two readers of the data would read differently, so that one of
// them would be given what the schema never saw: a member that is given twice, and text
// that is no Unicode. Without a schema nobody reads it here, and it is carried as it is.
func ambiguous(below string, data []byte) event.Flaws {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	var err error
	for err == nil {
		_, err = d.ReadToken()
	}
	var found *jsontext.SyntacticError
	switch {
	case !errors.As(err, &found):
		return nil
	case errors.Is(err, jsontext.ErrDuplicateName):
		return event.Flaws{{Pointer: below + string(found.JSONPointer), Message: "is given twice, and is held to the schema of its type"}}
	}
	return event.Flaws{{Pointer: below + string(found.JSONPointer), Message: "holds text that is no Unicode, and is held to the schema of its type"}}
}

// Bounds of numbers that are held to a schema. They are compared exactly, which takes as
// much memory and time as their digits say: 1e999999999 has a billion.
const (
	maxExponent = 400
	maxDigits   = 1000
)

// unwieldy tells of numbers that are too large to be compared. Without a schema they are
// as good as any.
func unwieldy(below string, data []byte) (flaws event.Flaws) {
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return flaws
		}
		if token.Kind() != '0' || wieldy(token.String()) {
			continue
		}
		flaws.Add(below+string(d.StackPointer()), fmt.Sprintf("is too large a number to be held to a schema: at most %d digits, and exponents from -%d to %d", maxDigits, maxExponent, maxExponent))
		if len(flaws) == maxFlaws {
			return flaws
		}
	}
}

func wieldy(number string) bool {
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(number), "e")
	if len(mantissa) > maxDigits {
		return false
	}
	if !scientific {
		return true
	}
	n, err := strconv.Atoi(exponent)
	return err == nil && n <= maxExponent && n >= -maxExponent
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
