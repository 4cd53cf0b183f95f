package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// canary is a text that must not be told, by what it is.
type canary struct{ what, text string }

// in reports whether a text holds it, as it is, or as text is written in base64, hex,
// URLs or JSON.
func (c canary) in(text string) bool {
	for _, form := range []string{c.text, hex.EncodeToString([]byte(c.text)), url.QueryEscape(c.text)} {
		if strings.Contains(text, form) {
			return true
		}
	}
	for shift := range 3 { // whatever it begins at
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("-", shift) + c.text))
		if strings.Contains(text, coded[4:len(coded)-4]) {
			return true
		}
	}
	return false
}

// AUTH-06, I15: what is secret or somebody's data is planted wherever it can be, every
// path is gone, and then every output is searched. Nobody's data is in a log, a metric or
// a span; nothing that opens or signs is in an answer, either, but the one that made it.
func TestNoSecretIsToldAnywhere(t *testing.T) {
	t.Parallel()
	plant := func(n int) string { return fmt.Sprintf("c4n4ry%02dx%s", n, strings.Repeat(string(rune('a'+n)), 12)) }
	secretBytes := plant(0) + "0123456789ab"
	sealKey := base64.StdEncoding.EncodeToString([]byte((plant(1) + "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")[:32]))
	opening := []canary{
		{"the signing secret", secretBytes}, {"the key that seals", plant(1)}, {"the operator's key", "esk_" + plant(2)},
		{"the database's password", plant(3)}, {"the proxy's password", plant(4)}, {"a wrong API key", plant(5)},
	}
	private := []canary{
		{"data", plant(6)}, {"a static header", plant(7)}, {"a token in a URL", plant(8)}, {"an answer's body", plant(9)},
		{"an answer's header", plant(10)}, {"an idempotency key", plant(11)}, {"metadata", plant(12)}, {"a failing URL's token", plant(13)},
		{"a body that is no JSON", plant(14)}, {"userinfo", plant(15)}, {"a subject", plant(16)}, {"a redirect's address", plant(17)}, {"a status line", plant(18)},
	}

	var mu sync.Mutex
	var exported bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			if unpacked, err := gzip.NewReader(r.Body); err == nil {
				body = unpacked
			}
		}
		mu.Lock()
		defer mu.Unlock()
		io.Copy(&exported, body)
	}))
	t.Cleanup(collector.Close)

	database := pgtest.URL(t)
	if !strings.Contains(database, "://") { // else the server may ask for the right one
		database += " password=" + plant(3)
	}
	p := start(t, database, []string{
		"EVENTSVC_AUTH=on", "EVENTSVC_ADMIN_KEY=esk_" + plant(2), "EVENTSVC_SECRET_KEY=" + sealKey, "EVENTSVC_ALLOW_PRIVATE=true",
		"EVENTSVC_LOG_LEVEL=debug", "EVENTSVC_LOG_FORMAT=json", "EVENTSVC_OPS_LISTEN=127.0.0.1:0", "EVENTSVC_TEST_MODE=true",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_METRICS_EXPORTER=otlp",
	}, "serve")
	key := "esk_" + plant(2)

	// Peers that say what is not ours to tell.
	shop := open(t, func(n int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", plant(10))
		w.Header().Set("X-Echo", plant(10))
		w.Header().Set("Location", "http://127.0.0.1:1/?at="+plant(17))
		w.WriteHeader([]int{500, 302, 200, 410, 429}[n%5])
		io.WriteString(w, plant(9))
	})
	rude, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rude.Close() })
	go func() {
		for {
			c, err := rude.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 1<<10))
			fmt.Fprintf(c, "HTTP/1.1 %s\r\n\r\n", plant(18))
			c.Close()
		}
	}()

	var shown []string // every answer that may hold data, and nothing that opens
	call := func(method, path, body string, headers ...string) answer {
		t.Helper()
		a := p.bearing(t, key, method, path, body, headers...)
		if a.status >= 500 && a.status != 503 {
			t.Errorf("%s %s: %d %s", method, path, a.status, a.text)
		}
		shown = append(shown, a.text)
		return a
	}
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(secretBytes))
	declare := func(name, to string) {
		t.Helper()
		// The answer that made it shows the secret, this once.
		a := p.bearing(t, key, "PUT", "/v1/receivers/"+name, `{"events":["*"],"url":"`+to+`","secret":"`+secret+`","max_attempts":2,"backoff_base":"1ms","backoff_cap":"1ms","headers":{"X-Token":"`+plant(7)+`"}}`)
		if a.status != 201 {
			t.Fatalf("%s: %d %s", name, a.status, a.text)
		}
	}
	declare("says", shop.URL+"/?token="+plant(8))
	declare("rude", "http://"+rude.Addr().String()+"/?token="+plant(13))
	declare("closed", "http://127.0.0.1:1/"+plant(13)+"?token="+plant(13))
	declare("nowhere", "http://nowhere.invalid/"+plant(13)+"?token="+plant(13))
	declare("plain", strings.Replace(shop.URL, "http://", "https://", 1)+"/?token="+plant(13))
	call("PUT", "/v1/receivers/user", `{"events":["*"],"url":"http://`+plant(15)+`:`+plant(15)+`@shop.example.com/"}`)
	call("PUT", "/v1/receivers/bad", `{"events":["*"],"url":"http://shop.example.com/\u0001`+plant(13)+`"}`)
	call("PUT", "/v1/receivers/says", `{"events":["*"],"url":"`+shop.URL+`/","secret":"whsec_`+base64.StdEncoding.EncodeToString([]byte(plant(0)+"another-12345"))+`"}`)
	for n := range 6 {
		call("POST", "/v1/events", `{"type":"a.b","data":{"name":"`+plant(6)+`"},"subject":"`+plant(16)+`","metadata":{"k":"`+plant(12)+`"}}`, "Idempotency-Key", fmt.Sprint(plant(11), n))
	}
	for _, body := range []string{`{"type":"a.b","data":` + plant(14), `{"type":"a.b","data":1,"` + plant(14) + `":2}`, `"` + plant(14) + `"`, "\xff" + plant(14)} {
		call("POST", "/v1/events", body, "Idempotency-Key", plant(11)+"bad")
	}
	call("POST", "/v1/events", `{"type":"a.b","data":"other"}`, "Idempotency-Key", plant(11)+"0")
	call("POST", "/v1/testing/drain", "")
	for _, wrong := range []string{plant(5), "esk_" + plant(5), "esk_" + base64.RawURLEncoding.EncodeToString([]byte((plant(5) + plant(5) + plant(5))[:32]))} {
		if a := p.bearing(t, wrong, "GET", "/v1/events", ""); a.status != 401 {
			t.Errorf("a wrong key: %d", a.status)
		} else {
			shown = append(shown, a.text)
		}
	}
	issued := p.bearing(t, key, "POST", "/v1/api-keys", `{"name":"issued","scopes":["read"]}`).at("key")
	opening = append(opening, canary{"an issued key", issued[len("esk_")+6:]})
	p.bearing(t, issued, "GET", "/v1/events", "")

	for _, path := range []string{
		"/v1/receivers", "/v1/receivers/says", "/v1/receivers/says/keys", "/v1/events", "/v1/deliveries", "/v1/status", "/v1/quiet-receivers", "/v1/catalogue",
		"/v1/asyncapi.yaml", "/v1/lanes", "/v1/api-keys", "/v1/audit?limit=200", "/readyz?verbose", "/v1/nothing", "/v1/events?" + plant(14) + "=1",
	} {
		call("GET", path, "")
	}
	for _, list := range []string{"/v1/deliveries?limit=200", "/v1/events?limit=200"} {
		a := call("GET", list, "")
		for i := range a.list("data") {
			path, _, _ := strings.Cut(list, "?")
			call("GET", path+"/"+a.at(fmt.Sprint("data.", i, ".id")), "")
		}
	}
	call("POST", "/v1/receivers/says/pause", "")
	call("DELETE", "/v1/receivers/rude?owed=cancel", "")

	ops := p.log.String()
	ops = ops[strings.Index(ops, `EVENTSVC_OPS_LISTEN"`):]
	_, ops, _ = strings.Cut(ops, `"address":"`)
	ops, _, _ = strings.Cut(ops, `"`)
	metrics := (&process{base: "http://" + ops}).call(t, "GET", "/metrics", "").text
	// A panic and a database that goes are told of in the log, too.
	if code := p.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	mu.Lock()
	defer mu.Unlock()
	spans := exported.String()
	if !strings.Contains(spans, "process deliveries") || !strings.Contains(metrics, "eventsvc_") || !strings.Contains(p.log.String(), "failed delivery") {
		t.Fatal("an output that is to be searched is not there")
	}
	for output, text := range map[string]string{"the log": p.log.String(), "the standard output": p.out.String(), "the metrics": metrics, "the spans": spans} {
		for _, c := range append(append([]canary{}, opening...), private...) {
			if c.in(text) {
				at := strings.Index(text, c.text)
				t.Errorf("%s tells %s: …%q…", output, c.what, text[max(at-300, 0):min(max(at, 0)+60, len(text))])
			}
		}
	}
	for _, text := range shown {
		for _, c := range opening {
			if c.in(text) {
				t.Errorf("an answer tells %s: %s", c.what, text)
			}
		}
	}
}
