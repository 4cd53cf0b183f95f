package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// overheard keeps the answers that an SDK's client throws away.
type overheard struct {
	mu   sync.Mutex
	last *http.Response
}

func (o *overheard) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = resp
	return resp, err
}

// sdk is the CloudEvents SDK's client of a process.
func sdk(t testing.TB, p *process) (cloudevents.Client, *overheard) {
	t.Helper()
	answers := new(overheard)
	c, err := cloudevents.NewClientHTTP(cloudevents.WithTarget(p.base+"/v1/events"), cloudevents.WithRoundTripper(answers))
	if err != nil {
		t.Fatal(err)
	}
	return c, answers
}

func orderPlaced(t testing.TB, id string) cloudevents.Event {
	t.Helper()
	e := cloudevents.NewEvent()
	e.SetID(id)
	e.SetSource("https://shop.example.com/eu")
	e.SetType("order.placed")
	e.SetSubject("order/" + id)
	e.SetTime(time.Date(2026, 6, 1, 12, 0, 0, 123456000, time.UTC))
	e.SetExtension("tenant", "eu")
	e.SetExtension("correlationid", "cart-7")
	e.SetExtension("partitionkey", "p1")
	if err := e.SetData(cloudevents.ApplicationJSON, []byte(`{"order":123456789012345678901234567890.50}`)); err != nil {
		t.Fatal(err)
	}
	return e
}

// Contract, section 3: CloudEvents are fired as they are, and source and id are the key.
func TestTheCloudEventsSDKFiresAndReceives(t *testing.T) {
	t.Parallel()
	p, s := start(t, pgtest.URL(t), nil, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`","format":"cloudevents"}`)
	client, answers := sdk(t, p)
	modes := map[string]func(context.Context) context.Context{"structured": cloudevents.WithEncodingStructured, "binary": cloudevents.WithEncodingBinary}
	for mode, in := range modes {
		e := orderPlaced(t, mode)
		for _, replayed := range []string{"", "true"} {
			if result := client.Send(in(context.Background()), e); !cloudevents.IsACK(result) {
				t.Fatalf("%s: %v", mode, result)
			}
			if got := answers.last; got.StatusCode != 201 || got.Header.Get("Idempotent-Replayed") != replayed || got.Header.Get("Location") == "" {
				t.Errorf("%s: %d %v, replayed should be %q", mode, got.StatusCode, got.Header, replayed)
			}
		}
		stored := p.call(t, "GET", answers.last.Header.Get("Location"), "")
		for path, want := range map[string]string{
			"event.type": "order.placed", "event.source": "https://shop.example.com/eu", "event.subject": "order/" + mode, "event.occurred_at": "2026-06-01T12:00:00.123456Z", "event.tenant": "eu",
			"event.correlation_id": "cart-7", "event.metadata.ce_id": mode, "event.metadata.ce_partitionkey": "p1", "event.metadata.ce_tenant": "",
		} {
			if got := stored.at(path); got != want {
				t.Errorf("%s: %s is %q, want %q", mode, path, got, want)
			}
		}
		w := s.next(t)
		got, err := cehttp.NewEventFromHTTPRequest(&http.Request{Header: w.header, Body: io.NopCloser(bytes.NewReader(w.body))})
		if err != nil || got.Source() != e.Source() || got.Subject() != e.Subject() || got.Type() != e.Type() || !got.Time().Equal(e.Time()) || string(got.Data()) != string(e.Data()) {
			t.Errorf("%s: the SDK reads %v of %s: %v", mode, got, w.body, err)
		}
	}
	// The other way round it is the same event still.
	if result := client.Send(cloudevents.WithEncodingBinary(context.Background()), orderPlaced(t, "structured")); !cloudevents.IsACK(result) || answers.last.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("structured before, binary now: %v %v", result, answers.last)
	}
	changed := orderPlaced(t, "structured")
	changed.SetSubject("another")
	if result := client.Send(context.Background(), changed); cloudevents.IsACK(result) || answers.last.StatusCode != 422 {
		t.Errorf("another event of the same source and id: %v", result)
	}
	if n := p.call(t, "GET", "/v1/events", "").list("data"); n != 2 || len(s.got) != 0 {
		t.Errorf("%d events, and %d webhooks more", n, len(s.got))
	}
}

func TestABatchOfTheSDKIsAnsweredEventByEvent(t *testing.T) {
	t.Parallel()
	p, s := start(t, pgtest.URL(t), nil, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`","format":"raw"}`)
	events := make([]cloudevents.Event, 100)
	for i := range events {
		events[i] = orderPlaced(t, fmt.Sprint("n", i))
	}
	for _, replayed := range []string{"", "true"} {
		req, err := cehttp.NewHTTPRequestFromEvents(context.Background(), p.base+"/v1/events", events)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.hear(resp)
		if err != nil || a.status != 200 || a.list("results") != 100 {
			t.Fatalf("%d %s, %v", a.status, a.text, err)
		}
		for i := range events {
			at := fmt.Sprint("results.", i, ".")
			if a.at(at+"status") != "201" || a.at(at+"replayed") != replayed || a.at(at+"event.subject") != events[i].Subject() || a.at(at+"deliveries.0.receiver") != "r" || a.at(at+"problem") != "" {
				t.Fatalf("event %d: %s", i, a.text)
			}
		}
	}
	for range events {
		if w := s.next(t); string(w.body) != string(events[0].Data()) {
			t.Errorf("got %s", w.body)
		}
	}
}

const (
	structured = "application/cloudevents+json"
	batched    = "application/cloudevents-batch+json"
)

func TestOneBadEventOfABatchHurtsNoOther(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	p.declare(t, "r", `{"events":["a.b"],"url":"https://shop.example.com/"}`)
	ce := func(id, rest string) string {
		return `{"specversion":"1.0","source":"/s","id":"` + id + `",` + rest + `}`
	}
	elements := []string{
		ce("1", `"type":"a.b","data": {"x" :1}`),
		ce("2", `"type":"A.B","data":1`),
		ce("3", `"type":"a.b","data":"`+strings.Repeat("x", 256<<10-1)+`"`),
		`7`,
		ce("1", `"type":"a.b","data": {"x" :1}`),
		ce("1", `"type":"a.b","data": {"x" :2}`),
		`{"specversion":"0.3"}`,
		ce("4", `"type":"quiet","subject":"a","subject":"b"`),
		ce("5", `"type":"quiet"`),
	}
	a := p.call(t, "POST", "/v1/events", "["+strings.Join(elements, " ,\n")+"]", "Content-Type", batched)
	if a.status != 200 || a.list("results") != len(elements) {
		t.Fatalf("%d %s", a.status, a.text)
	}
	for i, want := range []string{
		"201   order", "422 validation-failed /1/type", "413 payload-too-large ", "422 validation-failed /3", "201 true  order", "422 idempotency-key-reused ",
		"422 validation-failed /6/specversion", "422 validation-failed /7/subject", "201   quiet",
	} {
		at := fmt.Sprint("results.", i, ".")
		got := a.at(at+"status") + " " + a.at(at+"problem.code") + a.at(at+"replayed") + " " + a.at(at+"problem.errors.0.pointer")
		switch a.at(at + "event.type") {
		case "a.b":
			got += " order"
		case "quiet":
			got += " quiet"
		}
		if got != want {
			t.Errorf("event %d: %q, want %q", i, got, want)
		}
		if code := a.at(at + "problem.code"); code != "" && a.at(at+"problem.request_id") != a.header.Get("X-Request-Id") {
			t.Errorf("event %d: the problem names no request", i)
		}
	}
	if a.at("results.4.event.id") != a.at("results.0.event.id") || a.at("results.0.deliveries.0.receiver") != "r" || !strings.Contains(a.text, `"deliveries":[]`) || !strings.Contains(a.text, "source and id") {
		t.Errorf("got %s", a.text)
	}
	if n := p.call(t, "GET", "/v1/events", "").list("data"); n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
	// What is no batch at all.
	full := make([]string, 101)
	for i := range full {
		full[i] = ce(fmt.Sprint("b", i), `"type":"a.b"`)
	}
	for name, c := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"cut off": {`[` + elements[0], 400, "byte"}, "an object": {elements[0], 422, "array"}, "too many": {"[" + strings.Join(full, ",") + "]", 422, "101"},
		"too large": {`["` + strings.Repeat("x", 4<<20) + `"]`, 413, "4194304"}, "two arrays": {`[][]`, 400, "more than one"}, "nothing": {``, 400, ""},
	} {
		if a := p.call(t, "POST", "/v1/events", c.body, "Content-Type", batched); a.status != c.status || !strings.Contains(a.text, c.says) {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
	}
	if a := p.call(t, "POST", "/v1/events", "[]", "Content-Type", batched); a.status != 200 || a.text != `{"results":[]}`+"\n" && a.text != `{"results":[]}` {
		t.Errorf("an empty batch: %d %s", a.status, a.text)
	}
	if n := p.call(t, "GET", "/v1/events", "").list("data"); n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
}

func TestAKeyGivenWithCloudEventsWins(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	const one, two = `{"specversion":"1.0","source":"/s","id":"1","type":"a.b","data":1}`, `{"specversion":"1.0","source":"/s","id":"2","type":"a.b","data":1}`
	fire := func(kind, body, key string) answer {
		headers := []string{"Content-Type", kind}
		if key != "" {
			headers = append(headers, "Idempotency-Key", key)
		}
		return p.call(t, "POST", "/v1/events", body, headers...)
	}
	first := fire(structured, one, "k1")
	for name, c := range map[string]struct {
		a    answer
		want string
	}{
		"the same key":                  {fire(structured, one, `"k1"`), "201 true"},
		"another key, the same event":   {fire(structured, one, "k2"), "201 "},
		"no key, the same event":        {fire(structured, one, ""), "201 "},
		"and again":                     {fire(structured, one, ""), "201 true"},
		"the same key, another event":   {fire(structured, two, "k1"), "422 "},
		"the same key in our own words": {fire("application/json", `{"type":"a.b","data":1,"source":"/s","metadata":{"ce_id":"1"}}`, "k1"), "201 true"},
	} {
		if got := fmt.Sprint(c.a.status, " ", c.a.header.Get("Idempotent-Replayed")); got != c.want {
			t.Errorf("%s: %s, want %s: %s", name, got, c.want, c.a.text)
		}
	}
	if first.status != 201 || first.header.Get("Location") == "" || first.at("deliveries") != "[]" {
		t.Errorf("%d %s", first.status, first.text)
	}
	// The key of a batch is that of each of its events, together with their own.
	for _, replayed := range []string{"", "true"} {
		if a := fire(batched, "["+one+","+two+"]", "k1"); a.at("results.0.status") != "201" || a.at("results.1.status") != "201" || a.at("results.0.replayed") != replayed || a.at("results.1.replayed") != replayed {
			t.Errorf("a batch under a key: %s", a.text)
		}
	}
	if a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1}`); a.status != 400 || a.at("code") != "idempotency-key-missing" {
		t.Errorf("no CloudEvent and no key: %d %s", a.status, a.text)
	}
	if a := p.call(t, "POST", "/v1/events", "", "ce-specversion", "1.0", "ce-id", "9", "ce-source", "/s", "ce-type", "a.b"); a.status != 201 || a.at("event.data") != "" || !strings.Contains(a.text, `"data":null`) {
		t.Errorf("no data: %d %s", a.status, a.text)
	}
}
