package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestTypesAreDeclaredHeldToAndCatalogued(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s, _ := moody(t, 200)
	for body, pointer := range map[string]string{
		`{"retention":"1.5s"}`: "/retention", `{"schema":{"type":"strnig"}}`: "/schema", `{"shema":{}}`: "/shema",
		`{"schema":{"type":"object"},"example":7}`: "/example", `{"schema":{"$ref":"file:///etc/passwd"}}`: "/schema",
	} {
		if a := p.call(t, "PUT", "/v1/event-types/order.placed", body); a.status != 422 || a.at("errors.0.pointer") != pointer {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	schema := `{"type":"object","required":["order"],"properties":{"order":{"type":"integer"}}}`
	put := p.call(t, "PUT", "/v1/event-types/order.placed", `{"description":"An order was placed.","schema":`+schema+`,"example":{"order":1},"retention":"30d"}`)
	if put.status != 201 || put.header.Get("ETag") != `"1"` || put.at("retention") != "30d" {
		t.Errorf("declared: %d %s", put.status, put.text)
	}
	if a := p.call(t, "GET", "/v1/event-types/order.placed", ""); a.status != 200 || !strings.Contains(a.text, schema) {
		t.Errorf("read: %d %s", a.status, a.text)
	}
	if a := p.call(t, "GET", "/v1/event-types", ""); a.list("data") != 1 {
		t.Errorf("list: %s", a.text)
	}
	p.declare(t, "shop.mailer", `{"events":["order.placed","invoice.*"],"url":"`+s.URL+`"}`)
	bad := p.call(t, "POST", "/v1/events", `{"type":"order.placed","data":{"order":"x"}}`, "Idempotency-Key", "k")
	if bad.status != 422 || bad.at("errors.0.pointer") != "/data/order" {
		t.Errorf("data that breaks the schema: %d %s", bad.status, bad.text)
	}
	p.fire(t, "k", `{"type":"order.placed","data":{"order":1}}`)
	p.fire(t, "k2", `{"type":"anything.else","data":null}`)

	c := p.call(t, "GET", "/v1/catalogue", "")
	if c.header.Get("Content-Type") != "application/json" || c.at("types.0.type") != "order.placed" || c.at("types.0.listeners.0") != "shop.mailer" || c.at("wildcards.0.pattern") != "invoice.*" {
		t.Errorf("catalogue: %s", c.text)
	}
	if c := p.call(t, "GET", "/v1/catalogue", "", "Accept", "text/markdown"); !strings.HasPrefix(c.header.Get("Content-Type"), "text/markdown") || !strings.HasPrefix(c.text, "# Catalogue\n") {
		t.Errorf("as a page: %s %s", c.header.Get("Content-Type"), c.text)
	}
	var doc struct {
		AsyncAPI   string
		Channels   map[string]struct{ Messages map[string]map[string]string }
		Operations map[string]struct{ Action string }
		Components struct {
			Messages map[string]struct {
				Payload struct{ Properties map[string]any }
			}
		}
	}
	a := p.call(t, "GET", "/v1/asyncapi.yaml", "")
	if err := yaml.Unmarshal([]byte(a.text), &doc); err != nil {
		t.Fatalf("%v: %s", err, a.text)
	}
	if doc.AsyncAPI != "3.0.0" || doc.Operations["send.order.placed"].Action != "send" || doc.Channels["order.placed"].Messages["event"]["$ref"] != "#/components/messages/order.placed" {
		t.Errorf("got %+v", doc)
	}
	if data, _ := json.Marshal(doc.Components.Messages["order.placed"].Payload.Properties["data"]); !strings.Contains(string(data), `"required":["order"]`) {
		t.Errorf("the schema of data is %s", data)
	}
	if a := p.call(t, "DELETE", "/v1/event-types/order.placed", "", "If-Match", `"7"`); a.status != 412 {
		t.Errorf("delete of another version: %d %s", a.status, a.text)
	}
	if a := p.call(t, "DELETE", "/v1/event-types/order.placed", ""); a.status != 204 {
		t.Errorf("delete: %d %s", a.status, a.text)
	}
	p.fire(t, "k3", `{"type":"order.placed","data":"x"}`)
}

func TestStrictTypesRefuseWhatIsNotDeclared(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, []string{"EVENTSVC_STRICT_TYPES=true"}, "serve")
	other := start(t, url, nil, "serve")
	if a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1}`, "Idempotency-Key", "k"); a.status != 404 || a.at("code") != "unknown-event-type" {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if a := other.call(t, "PUT", "/v1/event-types/a.b", `{}`); a.status != 201 {
		t.Fatal(a.text)
	}
	p.fire(t, "k", `{"type":"a.b","data":1}`)
}

// G19, T81, T98's neighbour.
func TestAChainIsSeenWithWhatBecameOfEachEvent(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s, _ := moody(t, 200)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	root := p.fire(t, "1", `{"type":"order.placed","data":1,"actor":{"key":"user:7","label":"Ada"},"metadata":{"a":"b"}}`)
	id := root.at("event.id")
	child := p.fire(t, "2", `{"type":"order.paid","data":1,"causation_id":"`+id+`"}`)
	if child.at("event.correlation_id") != id {
		t.Errorf("the child's chain: %s", child.text)
	}
	silent := p.fire(t, "3", `{"type":"order.imported","data":1,"causation_id":"`+id+`","suppress":{"reason":"import of old orders"}}`)
	if silent.list("deliveries") != 0 || silent.at("event.suppress.reason") != "import of old orders" {
		t.Errorf("suppressed: %s", silent.text)
	}
	p.settled(t, child.at("deliveries.0.id"), "succeeded")
	p.settled(t, root.at("deliveries.0.id"), "succeeded")
	c := p.call(t, "GET", "/v1/correlations/"+id, "")
	if c.list("data") != 3 || c.at("data.0.id") != id || c.at("data.0.actor.key") != "user:7" || c.at("data.1.causation_id") != id ||
		c.at("data.1.deliveries.0.status") != "succeeded" || c.at("data.2.suppress.reason") == "" {
		t.Errorf("got %s", c.text)
	}
	if c := p.call(t, "GET", "/v1/correlations/none", ""); c.status != 404 {
		t.Errorf("none: %d %s", c.status, c.text)
	}
	if a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":1,"suppress":{}}`, "Idempotency-Key", "4"); a.status != 422 || a.at("errors.0.pointer") != "/suppress/reason" {
		t.Errorf("without a reason: %d %s", a.status, a.text)
	}
}

// T95, T96, RETRY-16: what stands, in the status and in the metrics.
func TestTheStatusAndTheMetricsSayHowThingsStand(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s := open(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/dead":
			w.WriteHeader(410)
		case "/busy":
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(429)
		}
	})
	p.declare(t, "good", `{"events":["a.b"],"url":"`+s.URL+`/"}`)
	p.declare(t, "dead", `{"events":["a.b"],"url":"`+s.URL+`/dead"}`)
	p.declare(t, "later", `{"events":["a.b"],"url":"`+s.URL+`/","due":"48h"}`)
	p.declare(t, "busy", `{"events":["a.b"],"url":"`+s.URL+`/busy","lane":"mail","count_deferrals":false,"give_up_after":"2d"}`)
	p.declare(t, "never", `{"events":["none"],"url":"`+s.URL+`/"}`)
	p.fire(t, "k", `{"type":"a.b","data":1}`)
	status := func() answer { return p.call(t, "GET", "/v1/status", "") }
	eventually(t, func() bool {
		a := status()
		return a.at("dead") == "1" && a.at("owed") == "1" && a.at("scheduled") == "1" && a.at("claimed") == "0"
	},
		func() string { return status().text })
	a := status()
	if a.list("pauses") != 1 || a.at("pauses.0.lane") != "mail" {
		t.Errorf("pauses: %s", a.text)
	}
	if a.list("relays") != 1 || a.list("receivers") != 3 || a.at("lapsed_leases") != "0" {
		t.Errorf("got %s", a.text)
	}
	d := p.call(t, "GET", "/v1/deliveries?receiver=busy", "")
	if d.at("data.0.attempts") != "0" || !strings.Contains(d.at("data.0.why"), "Retry-After 3600 s") || d.at("data.0.next_attempt_at") == "" {
		t.Errorf("why it waits: %s", d.text)
	}
	eventually(t, func() bool {
		return !strings.Contains(p.call(t, "GET", "/v1/quiet-receivers?within=1h", "").text, `"good"`)
	}, func() string { return "a receiver that took a delivery is quiet still" })
	if q := p.call(t, "GET", "/v1/quiet-receivers", ""); !strings.Contains(q.text, `"never"`) || !strings.Contains(q.text, `"dead"`) {
		t.Errorf("quiet: %s", q.text)
	}
	if q := p.call(t, "GET", "/v1/quiet-receivers?within=soon", ""); q.status != 422 {
		t.Errorf("within soon: %d", q.status)
	}
	m := p.call(t, "GET", "/metrics", "").text
	for _, line := range []string{`eventsvc_deliveries{state="dead"} 1`, `eventsvc_deliveries{state="scheduled"} 1`, `eventsvc_lane_relays{lane="mail"} 1`, `eventsvc_receiver_deliveries{receiver="busy",state="owed"} 1`} {
		if !strings.Contains(m, line+"\n") {
			t.Errorf("no %s in the metrics", line)
		}
	}
}
