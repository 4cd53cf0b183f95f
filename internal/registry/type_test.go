package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/registry"
)

const orderSchema = `{"type":"object","required":["order"],"properties":{"order":{"type":"integer"},"tags":{"type":"array","uniqueItems":true}}}`

// T72, T87, and every other rule, with its place.
func TestEveryRuleOfAnEventTypeNamesItsField(t *testing.T) {
	for name, c := range map[string]struct {
		kind    string
		d       registry.TypeDeclaration
		pointer string
		says    string
	}{
		"name":                 {kind: "Order", pointer: ""},
		"reserved":             {kind: "eventsvc.x", pointer: "", says: "own"},
		"control characters":   {d: registry.TypeDeclaration{Description: "a\x07"}, pointer: "/description"},
		"half a second":        {d: registry.TypeDeclaration{Retention: "0.5s"}, pointer: "/retention", says: "whole seconds"},
		"one and a half":       {d: registry.TypeDeclaration{Retention: "1.5s"}, pointer: "/retention"},
		"2^31 s":               {d: registry.TypeDeclaration{Retention: "2147483648s"}, pointer: "/retention", says: "2147483647"},
		"a bare number":        {d: registry.TypeDeclaration{Retention: "30"}, pointer: "/retention"},
		"another word":         {d: registry.TypeDeclaration{Retention: "forever"}, pointer: "/retention"},
		"no schema":            {d: registry.TypeDeclaration{Schema: []byte(`{"type":"strnig"}`)}, pointer: "/schema", says: "/type"},
		"a file":               {d: registry.TypeDeclaration{Schema: []byte(`{"$ref":"file:///etc/passwd"}`)}, pointer: "/schema", says: "complete in itself"},
		"a page":               {d: registry.TypeDeclaration{Schema: []byte(`{"$ref":"https://shop.example.com/s.json"}`)}, pointer: "/schema", says: "complete in itself"},
		"nothing at that name": {d: registry.TypeDeclaration{Schema: []byte(`{"$ref":"#/$defs/x"}`)}, pointer: "/schema"},
		"example":              {d: registry.TypeDeclaration{Schema: []byte(orderSchema), Example: []byte(`{"order":"x"}`)}, pointer: "/example/order"},
	} {
		if c.kind == "" {
			c.kind = "order.placed"
		}
		var flaws event.Flaws
		err := registry.CheckType(c.kind, &c.d)
		if !errors.As(err, &flaws) || len(flaws) != 1 || flaws[0].Pointer != c.pointer || !strings.Contains(flaws[0].Message, c.says) {
			t.Errorf("%s: got %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "root:") || strings.Contains(err.Error(), "eventsvc:schema")) {
			t.Errorf("%s: shows %v", name, err)
		}
	}
	for name, d := range map[string]registry.TypeDeclaration{
		"nothing": {}, "all": {Description: "d", Schema: []byte(orderSchema), Example: []byte(`{"order":1}`), Retention: "2147483647s"},
		"references": {Schema: []byte(`{"$defs":{"a":{"type":"integer"}},"$ref":"#/$defs/a"}`)}, "true": {Schema: []byte(`true`)},
		"succeeded": {Retention: "succeeded"}, "settled": {Retention: "settled"}, "one second": {Retention: "1s"},
	} {
		if err := registry.CheckType("order.placed", &d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func declareType(t testing.TB, r *registry.Registry, name string, d registry.TypeDeclaration) registry.PutType {
	t.Helper()
	if err := registry.CheckType(name, &d); err != nil {
		t.Fatal(err)
	}
	put, err := r.DeclareType(t.Context(), name, d, 0)
	if err != nil {
		t.Fatal(err)
	}
	return put
}

func TestDeclaringATypeIsIdempotentAndItsChangesReachEveryBook(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	b := book(t, r)
	look := func() *registry.Kind {
		if err := b.Reach(context.Background(), revision(t, pool)); err != nil {
			t.Fatal(err)
		}
		k, at := b.Kind("order.placed")
		if at != b.Revision() {
			t.Fatalf("at %d, the book is at %d", at, b.Revision())
		}
		return k
	}
	if look() != nil {
		t.Error("known before it was declared")
	}
	d := registry.TypeDeclaration{Schema: []byte(orderSchema), Retention: "30d"}
	if put := declareType(t, r, "order.placed", d); !put.Created || string(put.Type.Schema) != orderSchema || put.Type.Version != 1 {
		t.Errorf("got %+v", put)
	}
	first := look()
	if first == nil || first.Retention.Window != 30*24*time.Hour || len(first.Check([]byte(`{"order":1}`))) != 0 {
		t.Errorf("got %+v", first)
	}
	before := revision(t, pool)
	if put := declareType(t, r, "order.placed", d); put.Created || put.Type.Version != 1 || revision(t, pool) != before {
		t.Errorf("the same again: %+v", put)
	}
	if _, err := r.DeclareType(t.Context(), "order.placed", registry.TypeDeclaration{}, 7); !errors.Is(err, registry.ErrChanged) {
		t.Errorf("at a version that is not in force: %v", err)
	}
	declareType(t, r, "order.placed", registry.TypeDeclaration{Retention: "settled"})
	if k := look(); k.Retention.When != event.WhenSettled || len(k.Check([]byte(`1`))) != 0 {
		t.Errorf("got %+v", k)
	}
	if err := r.RemoveType(t.Context(), "order.placed", 1); !errors.Is(err, registry.ErrChanged) {
		t.Errorf("got %v", err)
	}
	if err := r.RemoveType(t.Context(), "order.placed", 0); err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveType(t.Context(), "order.placed", 0); !errors.Is(err, registry.ErrNoType) {
		t.Errorf("got %v", err)
	}
	if look() != nil {
		t.Error("known after it was deleted")
	}
	if put := declareType(t, r, "order.placed", d); !put.Created || put.Type.Version != 3 {
		t.Errorf("declared again: %+v", put)
	}
}

func TestDataIsHeldToItsSchemaWithTheFlawsPlace(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declareType(t, r, "order.placed", registry.TypeDeclaration{Schema: []byte(orderSchema)})
	k, _ := book(t, r).Kind("order.placed")
	for data, pointer := range map[string]string{
		`{"order":1}`: "none", `{"order":1,"x":2}`: "none", `{"order":99999999999999999999999999}`: "none",
		`{}`: "/data", `{"order":"1"}`: "/data/order", `7`: "/data", `{"order":1.5}`: "/data/order",
		`{"order":1,"tags":[{"a":[1]},{"a":[1]}]}`: "/data/tags", `{"order":1,"tags":[{"a":1},{"a":2}]}`: "none",
	} {
		flaws := k.Check([]byte(data))
		if pointer == "none" != (len(flaws) == 0) || len(flaws) > 0 && flaws[0].Pointer != pointer {
			t.Errorf("%s: got %v", data, flaws)
		}
	}
}

// Two readers of {"order":"x","order":1} read two orders; a schema that saw one of them
// would promise a receiver what the other breaks.
func TestDataThatCanBeReadInTwoWaysBreaksItsSchema(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declareType(t, r, "order.placed", registry.TypeDeclaration{Schema: []byte(orderSchema)})
	k, _ := book(t, r).Kind("order.placed")
	for data, pointer := range map[string]string{
		`{"order":"x","order":1}`:           "/data/order",
		`{"order":1,"\u006frder":"x"}`:      "/data/order",
		`{"order":1,"to":[{"a":1,"a":2}]}`:  "/data/to/0/a",
		`{"order":1,"name":"\ud800"}`:       "/data/name",
		"{\"order\":1,\"name\":[\"\xff\"]}": "/data/name/0",
	} {
		flaws := k.Check([]byte(data))
		if len(flaws) != 1 || flaws[0].Pointer != pointer {
			t.Errorf("%q: got %v", data, flaws)
		}
	}
}

// BYTES-13: a number costs no more than its text, and panics nothing.
func TestHugeNumbersAreAFlawBySchemaAndFineWithout(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	for _, schema := range []string{`{"minimum":0}`, `{"multipleOf":3}`, `{"items":{"type":"integer"}}`, `{"enum":[1]}`, `{"const":1}`, `{"uniqueItems":true}`} {
		declareType(t, r, "order.placed", registry.TypeDeclaration{Schema: []byte(schema)})
		k, _ := book(t, r).Kind("order.placed")
		for _, number := range []string{"1e1000001", "-1E+999999999", "1e-1000001", "1e99999999999999999999", strings.Repeat("9", 2000)} {
			for pointer, data := range map[string]string{"/data": number, "/data/0": "[" + number + "]"} {
				if flaws := k.Check([]byte(data)); len(flaws) != 1 || flaws[0].Pointer != pointer {
					t.Errorf("%s, %.20s: got %v", schema, data, flaws)
				}
			}
		}
	}
	for _, schema := range []string{`{"minimum":1e1000001}`, `{"const":1e1000001}`} {
		if err := registry.CheckType("a.b", &registry.TypeDeclaration{Schema: []byte(schema)}); err == nil {
			t.Errorf("%s is a schema", schema)
		}
	}
	declareType(t, r, "order.placed", registry.TypeDeclaration{Schema: []byte(`{"minimum":0}`)})
	k, _ := book(t, r).Kind("order.placed")
	for _, fine := range []string{"1e400", "123456789012345678901234567890.5", "0", strings.Repeat("9", 1000)} {
		if flaws := k.Check([]byte(fine)); len(flaws) != 0 {
			t.Errorf("%.20s: got %v", fine, flaws)
		}
	}
}
