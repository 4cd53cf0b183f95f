package api

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
)

// firingOf is a fire as it comes in. Headers come in pairs.
func firingOf(body string, headers ...string) *fireInput {
	in := &fireInput{RawBody: []byte(body)}
	in.header = http.Header{}
	for i := 0; i < len(headers); i += 2 {
		in.header.Add(headers[i], headers[i+1])
	}
	return in
}

func readOne(t *testing.T, in *fireInput) *fire.Draft {
	t.Helper()
	draft, err := in.read(modeOf(in.header))
	if err != nil {
		t.Fatalf("%v %s: %v", in.header, in.RawBody, err)
	}
	return draft
}

const ceJSON = "application/cloudevents+json"

func TestAttributesBecomeFactsInEitherMode(t *testing.T) {
	const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	structured := readOne(t, firingOf(`{"specversion":"1.0","id":"7","source":"/shop","type":"order.placed","subject":"order/ü 7","time":"2026-06-01T14:00:00.1234567+02:00",
		"datacontenttype":"application/json","dataschema":"https://shop.example.com/s","traceparent":"`+traced+`","tracestate":"a=b","correlationid":"c","causationid":"a","tenant":"eu",
		"partitionkey":"p","sampled":true,"rank":-7,"gone":null,"data": {"a" : 1} }`, "Content-Type", ceJSON+"; charset=utf-8"))
	binary := readOne(t, firingOf(`{"a" : 1}`, "Content-Type", "application/json; charset=utf-8", "ce-specversion", "1.0", "ce-id", "7", "ce-source", "/shop", "ce-type", "order.placed",
		"ce-subject", "order/%C3%BC%207", "ce-time", "2026-06-01T12:00:00.1234567Z", "ce-dataschema", "https://shop.example.com/s", "ce-traceparent", traced, "ce-tracestate", "a=b",
		"ce-correlationid", "c", "ce-causationid", "a", "ce-tenant", "eu", "ce-partitionkey", "p", "ce-sampled", "true", "ce-rank", "-7"))
	want := event.Facts{Tenant: "eu", Subject: "order/ü 7", Source: "/shop", OccurredAt: time.Date(2026, 6, 1, 12, 0, 0, 123456000, time.UTC), CorrelationID: "c", CausationID: "a",
		Metadata: map[string]string{"ce_id": "7", "ce_dataschema": "https://shop.example.com/s", "ce_tracestate": "a=b", "ce_partitionkey": "p", "ce_sampled": "true", "ce_rank": "-7"}}
	for mode, d := range map[string]*fire.Draft{"structured": structured, "binary": binary} {
		if d.Type != "order.placed" || string(d.Data) != `{"a" : 1}` || d.TraceParent != traced || d.Key != structured.Key || !strings.HasPrefix(d.Key, "ce-") {
			t.Errorf("%s: got %+v", mode, d)
		}
		if !maps.Equal(d.Metadata, want.Metadata) || d.Tenant != want.Tenant || d.Subject != want.Subject || d.Source != want.Source ||
			!d.OccurredAt.Equal(want.OccurredAt) || d.CorrelationID != want.CorrelationID || d.CausationID != want.CausationID || d.Actor != nil || d.Suppress != nil {
			t.Errorf("%s: got %+v, want %+v", mode, d.Facts, want)
		}
	}
}

func TestATraceThatCannotBeReadRefusesNothing(t *testing.T) {
	d := readOne(t, firingOf(`1`, "Ce-Specversion", "1.0", "Ce-Id", "7", "Ce-Source", "/s", "Ce-Type", "a.b", "Ce-Traceparent", "today"))
	if d.TraceParent != "" || d.Metadata["ce_traceparent"] != "today" {
		t.Errorf("got %+v", d)
	}
}

// The key is for others to rely on: it must not change from one version to the next.
func TestTheKeyOfSourceAndIDIsFrozenAndTellsThemApart(t *testing.T) {
	key := func(source, id string) string {
		return (&occurrence{attributes: map[string]string{"source": source, "id": id}}).key()
	}
	if got := key("/shop", "7"); got != "ce-pBxKtTsLWFrnhlnD_BIskHWTWt7wwo9ULimRlMa9ZJk" {
		t.Errorf("the key is %s", got)
	}
	if key("/shop", "7") == key("/shop7", "") || key("/shop ", "7") == key("/shop", " 7") || key("a", "bc") == key("ab", "c") {
		t.Error("two events have one key")
	}
	rapid.Check(t, func(t *rapid.T) {
		if err := fire.CheckKey(key(rapid.String().Draw(t, "source"), rapid.String().Draw(t, "id"))); err != nil {
			t.Error(err)
		}
	})
}

func TestAGivenKeyWinsOverSourceAndID(t *testing.T) {
	for _, in := range []*fireInput{
		firingOf(`{"specversion":"1.0","id":"7","source":"/s","type":"a.b"}`, "Content-Type", ceJSON, "Idempotency-Key", `"k"`),
		firingOf(`1`, "Ce-Specversion", "1.0", "Ce-Id", "7", "Ce-Source", "/s", "Ce-Type", "a.b", "Idempotency-Key", "k"),
	} {
		if d := readOne(t, in); d.Key != "k" {
			t.Errorf("the key is %s", d.Key)
		}
	}
}

func TestTheDigestOfHeadersIsOverAllOfThem(t *testing.T) {
	base := []string{"Ce-Specversion", "1.0", "Ce-Id", "7", "Ce-Source", "/s", "Ce-Type", "a.b", "Idempotency-Key", "k", "Ce-X", "y"}
	first := readOne(t, firingOf(`1`, base...))
	if again := readOne(t, firingOf(`1`, base...)); again.Body != first.Body {
		t.Error("the same request has another digest")
	}
	for _, other := range []*fireInput{
		firingOf(`1 `, base...), firingOf(`1`, append(base[:10:10], "Ce-X", "z")...), firingOf(`1`, append(base[:10:10], "Ce-Xy", "")...), firingOf(`1`, append(base, "Ce-Subject", "s")...),
	} {
		if readOne(t, other).Body == first.Body {
			t.Errorf("%v %s has the digest of another", other.header, other.RawBody)
		}
	}
}

// HTTP binding, section 3.1.3.2.
func TestHeaderValuesAreDecodedOnce(t *testing.T) {
	for raw, want := range map[string]string{
		"a%20b": "a b", "a%2520b": "a%20b", "%C3%BC%e2%82%ac": "ü€", "Euro%20%E2%82%AC%20%F0%9F%98%80": "Euro € 😀", "ü": "ü", "100%": "100%", "%zz%2": "%zz%2",
		`"a \"b\" %25"`: `a "b" %`, `"`: `"`, "": "", "%22x%22": `"x"`, "%00": "\x00",
	} {
		if got, ok := readHeaderValue(raw); !ok || got != want {
			t.Errorf("%s is %q, %v; want %q", raw, got, ok, want)
		}
	}
	for _, raw := range []string{"%FF", "%C3", "\xff"} {
		if got, ok := readHeaderValue(raw); ok {
			t.Errorf("%q is %q", raw, got)
		}
	}
}

// P7 begins here too.
func TestDataOfACloudEventIsKeptByteForByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := value(4).Draw(t, "data")
		space := rapid.SampledFrom([]string{"", " ", "\r\n\t"}).Draw(t, "space")
		inHeaders := []string{"Ce-Specversion", "1.0", "Ce-Id", "7", "Ce-Source", "/s", "Ce-Type", "a.b"}
		inJSON := `{"specversion":"1.0","data"` + space + ":" + space + data + space + `,"id":"7","source":"/s","type":"a.b"}`
		for mode, in := range map[string]*fireInput{"structured": firingOf(inJSON, "Content-Type", ceJSON), "binary": firingOf(data, inHeaders...)} {
			d, err := in.read(modeOf(in.header))
			if err != nil || string(d.Data) != data {
				t.Fatalf("%s: %s came out of %s: %v", mode, d.Data, data, err)
			}
		}
		elements, err := splitArray([]byte("["+space+inJSON+space+","+data+"]"), maxBatch, "CloudEvents")
		if err != nil || len(elements) != 2 || string(elements[0]) != inJSON || string(elements[1]) != data {
			t.Fatalf("a batch came apart as %q: %v", elements, err)
		}
	})
}

func TestDataThatIsNotGivenIsNull(t *testing.T) {
	for _, in := range []*fireInput{
		firingOf(`{"specversion":"1.0","id":"7","source":"/s","type":"a.b"}`, "Content-Type", ceJSON),
		firingOf("", "Ce-Specversion", "1.0", "Ce-Id", "7", "Ce-Source", "/s", "Ce-Type", "a.b"),
	} {
		if d := readOne(t, in); string(d.Data) != "null" {
			t.Errorf("data is %s", d.Data)
		}
	}
}

func TestJSONInBase64IsJSON(t *testing.T) {
	for _, kind := range []string{"", `"datacontenttype":"application/json",`, `"datacontenttype":"application/vnd.shop+json; charset=UTF-8",`} {
		d := readOne(t, firingOf(`{"specversion":"1.0","id":"7","source":"/s","type":"a.b",`+kind+`"data_base64":"eyAiYSI6MSB9"}`, "Content-Type", ceJSON))
		if string(d.Data) != `{ "a":1 }` {
			t.Errorf("%s: data is %s", kind, d.Data)
		}
	}
}

// Each flaw is told with its place and what would do.
func TestWhatIsNoCloudEventIsRefusedAndTold(t *testing.T) {
	with := func(members string) *fireInput {
		return firingOf(`{"specversion":"1.0","id":"7","source":"/s","type":"a.b",`+members+`}`, "Content-Type", ceJSON)
	}
	header := func(headers ...string) *fireInput {
		return firingOf("1", append([]string{"Ce-Specversion", "1.0", "Ce-Id", "7", "Ce-Source", "/s", "Ce-Type", "a.b"}, headers...)...)
	}
	for name, c := range map[string]struct {
		in            *fireInput
		code, pointer string
		says          string
	}{
		"no version":           {firingOf(`{"id":"7","source":"/s","type":"a.b"}`, "Content-Type", ceJSON), "validation-failed", "/specversion", `"1.0"`},
		"another version":      {firingOf(`{"specversion":"0.3","id":"7","source":"/s","type":"a.b"}`, "Content-Type", ceJSON), "validation-failed", "/specversion", "0.3"},
		"version as number":    {firingOf(`{"specversion":1.0,"id":"7","source":"/s","type":"a.b"}`, "Content-Type", ceJSON), "validation-failed", "/specversion", "a string"},
		"no id":                {firingOf(`{"specversion":"1.0","source":"/s","type":"a.b"}`, "Content-Type", ceJSON), "validation-failed", "/id", "required"},
		"no source":            {firingOf(`{"specversion":"1.0","id":"7","source":"","type":"a.b"}`, "Content-Type", ceJSON), "validation-failed", "/source", "required"},
		"no type":              {firingOf(`{"specversion":"1.0","id":"7","source":"/s"}`, "Content-Type", ceJSON), "validation-failed", "/type", "order.placed"},
		"type of another rule": {firingOf(`{"specversion":"1.0","id":"7","source":"/s","type":"com.Shop.x"}`, "Content-Type", ceJSON), "validation-failed", "/type", "a-z"},
		"bad time":             {with(`"time":"today"`), "validation-failed", "/time", "RFC 3339"},
		"name in capitals":     {with(`"dataContentType":"application/json"`), "validation-failed", "/dataContentType", "did you mean datacontenttype"},
		"name with underscore": {with(`"occurred_at":"x"`), "validation-failed", "/occurred_at", "a-z and 0-9"},
		"nested extension":     {with(`"ext":{"a":1}`), "validation-failed", "/ext", "flat"},
		"long extension":       {with(`"ext":"` + strings.Repeat("x", 256) + `"`), "validation-failed", "/ext", "at most 255"},
		"long cause":           {with(`"causationid":"` + strings.Repeat("x", 256) + `"`), "validation-failed", "/causationid", "at most 255"},
		"given twice":          {with(`"subject":"a","subject":"b"`), "validation-failed", "/subject", "twice"},
		"data twice":           {with(`"data":1,"data":2`), "validation-failed", "/data", "twice"},
		"data both ways":       {with(`"data":1,"data_base64":"MQ=="`), "validation-failed", "/data_base64", "one of the two"},
		"bytes":                {with(`"datacontenttype":"image/png","data_base64":"AAEC"`), "validation-failed", "/data_base64", "send data as a JSON value"},
		"bytes as JSON":        {with(`"data_base64":"AAEC"`), "validation-failed", "/data_base64", "one JSON value"},
		"no base64":            {with(`"data_base64":"%"`), "validation-failed", "/data_base64", "RFC 4648"},
		"text":                 {with(`"datacontenttype":"text/plain","data":"a"`), "validation-failed", "/datacontenttype", "text/plain"},
		"another charset":      {with(`"datacontenttype":"application/json; charset=latin1","data":"a"`), "validation-failed", "/datacontenttype", "latin1"},
		"too deep":             {with(`"data":` + strings.Repeat("[", 257) + strings.Repeat("]", 257)), "validation-failed", "/data", "levels"},
		"cut off":              {firingOf(`{"specversion":"1.0"`, "Content-Type", ceJSON), "malformed-json", "", "byte"},
		"empty":                {firingOf(``, "Content-Type", ceJSON), "malformed-json", "", "empty"},
		"no object":            {firingOf(`[]`, "Content-Type", ceJSON), "validation-failed", "", "object"},
		"too large":            {with(`"data":"` + strings.Repeat("x", event.MaxData-1) + `"`), "payload-too-large", "", "262144"},
		"as XML":               {firingOf(`<a/>`, "Content-Type", "application/cloudevents+xml"), "unsupported-media-type", "", ceJSON},
		"without a format":     {firingOf(`{}`, "Content-Type", "application/cloudevents"), "unsupported-media-type", "", ceJSON},
		"in UTF-16":            {firingOf(`{}`, "Content-Type", ceJSON+"; charset=utf-16"), "unsupported-media-type", "", "UTF-8"},
		"key with space":       {firingOf(`{}`, "Content-Type", ceJSON, "Idempotency-Key", "a b"), "idempotency-key-invalid", "", "visible"},
		"header twice":         {header("Ce-Subject", "a", "Ce-Subject", "b"), "validation-failed", "/subject", "twice"},
		"header of data":       {header("Ce-Datacontenttype", "application/json"), "validation-failed", "/datacontenttype", "Content-Type"},
		"header with dash":     {header("Ce-Order-Id", "7"), "validation-failed", "/order-id", "a-z and 0-9"},
		"header not UTF-8":     {header("Ce-Subject", "%FF"), "validation-failed", "/subject", "UTF-8"},
		"header with control":  {header("Ce-Subject", "a%00"), "validation-failed", "/subject", "control"},
		"without a version":    {firingOf("1", "Ce-Id", "7", "Ce-Source", "/s", "Ce-Type", "a.b"), "validation-failed", "/specversion", "required"},
		"text as body":         {header("Content-Type", "text/plain"), "unsupported-media-type", "", "text/plain"},
		"body cut off":         {firingOf("{", "Ce-Specversion", "1.0", "Ce-Id", "7"), "malformed-json", "", "byte"},
		"two bodies":           {firingOf("1 2", "Ce-Specversion", "1.0", "Ce-Id", "7"), "malformed-json", "", "more than one"},
	} {
		_, err := c.in.read(modeOf(c.in.header))
		var flaws event.Flaws
		if errors.As(err, &flaws) {
			err = invalid(flaws)
		}
		var p *Problem
		if !errors.As(err, &p) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all := p.Detail + fmt.Sprint(p.Errors)
		if p.Code != c.code || c.pointer != "" && (len(p.Errors) == 0 || p.Errors[0].Pointer != c.pointer) || !strings.Contains(all, c.says) {
			t.Errorf("%s: %s at %s; want %s at %s saying %s", name, p.Code, all, c.code, c.pointer, c.says)
		}
	}
}

func TestTheModeIsToldByTheContentTypeThenByHeaders(t *testing.T) {
	for _, c := range []struct {
		headers []string
		want    mode
	}{
		{nil, plain},
		{[]string{"Content-Type", "application/json"}, plain},
		{[]string{"Content-Type", "application/json", "Ce-X", "y"}, plain},
		{[]string{"Content-Type", "Application/CloudEvents+JSON; charset=UTF-8"}, structured},
		{[]string{"Content-Type", "application/cloudevents-batch+json"}, batch},
		{[]string{"Content-Type", "application/cloudevents+json", "Ce-Id", "7"}, structured},
		{[]string{"Content-Type", "application/json", "Ce-Id", "7"}, binary},
	} {
		if got := modeOf(firingOf("", c.headers...).header); got != c.want {
			t.Errorf("%v is %d, want %d", c.headers, got, c.want)
		}
	}
}

func FuzzACloudEventIsReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"specversion":"1.0","id":"7","source":"/s","type":"a.b","data":{"x":1},"e":true}`), "a%20b")
	f.Add([]byte(`{"specversion":"1.0","data_base64":"MQ==","\u0000":null}`), `"\"`)
	f.Add([]byte(`[{"data":1},2]`), "%")
	f.Fuzz(func(t *testing.T, body []byte, value string) {
		if o, err := readStructured(body); err == nil {
			o.draft(o.key())
		}
		splitArray(body, maxBatch, "CloudEvents")
		if o, err := readBinary(http.Header{"Ce-Id": {value}, "Ce-Subject": {value}}, body); err == nil {
			o.draft(o.key())
		}
	})
}
