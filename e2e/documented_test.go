package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// documentation is openapi.yaml, which every answer in every story is held against.
type documentation struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex
	schemas  map[string]*jsonschema.Schema
}

const documentURL = "https://eventsvc.example/openapi.yaml"

var documented = sync.OnceValues(readDocumentation)

func readDocumentation() (*documentation, error) {
	text, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		return nil, err
	}
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	closeObjects(tree)
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return nil, err
	}
	d := &documentation{doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	return d, d.compiler.AddResource(documentURL, doc)
}

// closeObjects has objects with named fields hold no others. Callers are told to put up
// with fields that they do not know; here such a field is one that is not documented.
func closeObjects(node any) {
	switch node := node.(type) {
	case map[string]any:
		if _, named := node["properties"]; named && node["additionalProperties"] == true {
			node["additionalProperties"] = false
		}
		for _, v := range node {
			closeObjects(v)
		}
	case []any:
		for _, v := range node {
			closeObjects(v)
		}
	}
}

// asDocumented says how an answer of the API differs from what openapi.yaml says of it.
func asDocumented(resp *http.Response, body []byte) error {
	path := resp.Request.URL.EscapedPath()
	if !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v1/testing/") {
		return nil // health, pages and test mode are no part of the API
	}
	d, err := documented()
	if err != nil {
		return err
	}
	if err := d.check(resp, path, body); err != nil {
		return fmt.Errorf("%s %s answered %d, and not as documented: %w\n%.2000s", resp.Request.Method, path, resp.StatusCode, err, body)
	}
	return nil
}

func (d *documentation) check(resp *http.Response, path string, body []byte) error {
	template, operations := d.path(path)
	operation, known := operations[strings.ToLower(resp.Request.Method)].(map[string]any)
	if !known {
		return d.refused(resp, template != "", body)
	}
	responses := operation["responses"].(map[string]any)
	code := fmt.Sprint(resp.StatusCode)
	response, ok := responses[code].(map[string]any)
	if !ok {
		return errors.New("the status is not documented")
	}
	content, _ := response["content"].(map[string]any)
	if len(content) == 0 {
		if len(body) != 0 {
			return errors.New("a body is not documented")
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("the content type %q cannot be read: %w", resp.Header.Get("Content-Type"), err)
	}
	if content[media] == nil {
		return fmt.Errorf("the content type %s is not documented", media)
	}
	if !strings.HasSuffix(media, "json") {
		return nil
	}
	return d.valid(body, "paths", template, strings.ToLower(resp.Request.Method), "responses", code, "content", media, "schema")
}

// refused checks an answer to a call that is none of the documented operations.
func (d *documentation) refused(resp *http.Response, otherMethods bool, body []byte) error {
	switch {
	case resp.StatusCode == http.StatusMethodNotAllowed && !otherMethods:
		return errors.New("the path is not documented")
	case resp.StatusCode < 400 || resp.StatusCode >= 500:
		return errors.New("the operation is not documented")
	case resp.Header.Get("Content-Type") != "application/problem+json":
		return fmt.Errorf("a refusal of type %q", resp.Header.Get("Content-Type"))
	}
	return d.valid(body, "components", "schemas", "Problem")
}

// path is the documented path that a call's belongs to: one without parameters before
// one with.
func (d *documentation) path(called string) (template string, operations map[string]any) {
	fewest := -1
	for t, operations1 := range d.doc["paths"].(map[string]any) {
		if parameters, fits := fit(t, called); fits && (fewest < 0 || parameters < fewest) {
			fewest, template, operations = parameters, t, operations1.(map[string]any)
		}
	}
	return template, operations
}

func fit(template, called string) (parameters int, fits bool) {
	want, got := strings.Split(template, "/"), strings.Split(called, "/")
	if len(want) != len(got) {
		return 0, false
	}
	for i, part := range want {
		if strings.HasPrefix(part, "{") && got[i] != "" {
			parameters++
		} else if part != got[i] {
			return 0, false
		}
	}
	return parameters, true
}

// valid holds a body against the schema at a place in the document.
func (d *documentation) valid(body []byte, at ...string) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	schema, err := d.schema(at)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (d *documentation) schema(at []string) (*jsonschema.Schema, error) {
	pointer := ""
	for _, part := range at {
		pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.schemas[pointer]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(documentURL + "#" + pointer)
	d.schemas[pointer] = s
	return s, err
}
