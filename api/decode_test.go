package api

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// value draws JSON as people write it: with odd spaces, names given twice, big numbers
// and escapes that a decoder would not give back as they were.
func value(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		space := rapid.SampledFrom([]string{"", " ", "\n\t"})
		leaf := rapid.SampledFrom([]string{"0", "-1.50e+10", "123456789012345678901234567890.50", "1e131071", "true", "null", `""`, `"\u0000\ud800<&>"`, "\"\u2028\"", `"}],{["`})
		switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
		case depth == 0 || kind == 0:
			return leaf.Draw(t, "leaf")
		case kind == 1:
			return "[" + space.Draw(t, "s") + value(depth-1).Draw(t, "a") + space.Draw(t, "s") + "," + value(depth-1).Draw(t, "b") + "]"
		}
		return `{"a"` + space.Draw(t, "s") + ":" + value(depth-1).Draw(t, "a") + `, "a":` + value(depth-1).Draw(t, "b") + space.Draw(t, "s") + "}"
	})
}

// P7 begins here: data is cut out of the request and never written again.
func TestDataIsCutOutByteForByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := value(4).Draw(t, "data")
		before, after := "", ""
		if rapid.Bool().Draw(t, "first") {
			before = `"type": "a.b" , `
		} else {
			after = `, "type": "a.b"`
		}
		body := []byte(`{ ` + before + `"data": ` + data + after + ` }`)
		got, rest, err := splitData(body)
		if err != nil || string(got) != data {
			t.Fatalf("%s: got %s, %v", body, got, err)
		}
		var f firing
		if err := decode(rest, &f); err != nil || f.Type != "a.b" {
			t.Fatalf("%s: the rest is %s: %v", body, rest, err)
		}
	})
}

func TestASecondDataIsRefusedAndOneThatIsNestedIsNotTaken(t *testing.T) {
	_, rest, err := splitData([]byte(`{"data":1,"data":2}`))
	if err != nil {
		t.Fatal(err)
	}
	var p *Problem
	if err := decode(rest, new(firing)); !errors.As(err, &p) || p.Code != "validation-failed" {
		t.Errorf("got %v", err)
	}
	if data, _, err := splitData([]byte(`{"metadata":{"data":"x"}}`)); err != nil || data != nil {
		t.Errorf("got %s, %v", data, err)
	}
}

func FuzzSplitDataNeverPanicsNorInvents(f *testing.F) {
	for _, seed := range []string{`{"data":1}`, `{"data":{"data":2},"x":"\"data\":3"}`, `[]`, `{`, ``, "{\"\xff\":1}", `{"data":1}{"data":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		data, rest, err := splitData(bytes.Clone(body))
		if err == nil && (!bytes.Contains(body, data) || data != nil && !bytes.Contains(rest, []byte("null"))) {
			t.Errorf("%q gave %q and %q", body, data, rest)
		}
	})
}

func TestIdempotencyKeysAreReadBareAndQuoted(t *testing.T) {
	for line, want := range map[string]string{"abc": "abc", `"abc"`: "abc", " 8e03978e-40d5-43dd-bc93-6894a57f9324 ": "8e03978e-40d5-43dd-bc93-6894a57f9324", `"a\"b"`: `a"b`, "a;b=1": "a;b=1"} {
		if got, err := idempotencyKey(http.Header{"Idempotency-Key": {line}}); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", line, got, err, want)
		}
	}
	for line, code := range map[string]string{"": "missing", `"`: "invalid", `""`: "invalid", `"a b"`: "invalid", "a b": "invalid", "é": "invalid", strings.Repeat("k", 256): "invalid", `"a" "b"`: "invalid"} {
		var p *Problem
		if _, err := idempotencyKey(http.Header{"Idempotency-Key": {line}}); !errors.As(err, &p) || p.Code != "idempotency-key-"+code {
			t.Errorf("%q: %v, want %s", line, err, code)
		}
	}
}

func TestEveryKindOfProblemHasAPageAndAStatus(t *testing.T) {
	for code, k := range kinds {
		if k.status < 400 || k.status > 599 || k.title == "" || k.about == "" {
			t.Errorf("%s: %+v", code, k)
		}
		if p := problem(code, "x"); p.Status != k.status || p.Type != "/problems/"+code {
			t.Errorf("%s: %+v", code, p)
		}
	}
}

func BenchmarkReadDraft(b *testing.B) {
	body := []byte(`{"type":"order.placed","data":{"pad":"` + strings.Repeat("x", 1000) + `"},"tenant":"t"}`)
	in := &fireInput{RawBody: body}
	in.header = http.Header{"Idempotency-Key": {"k"}, "Content-Type": {"application/json"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readDraft(in); err != nil {
			b.Fatal(err)
		}
	}
}
