package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// The front door: what is asked of a call before anything is done for it.

// dial speaks to the service byte by byte. All must be over in good time.
func (p *process) dial(t testing.TB) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

// ended fails where the service keeps a connection open.
func ended(t testing.TB, in io.Reader, what string) {
	t.Helper()
	if _, err := io.Copy(io.Discard, in); err != nil {
		if ne, is := err.(net.Error); is && ne.Timeout() {
			t.Errorf("%s: the connection stays open", what)
		}
	}
}

func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), asked, "serve")
	t.Run("a header that does not end", func(t *testing.T) {
		t.Parallel()
		c, in := p.dial(t)
		fmt.Fprintf(c, "POST /v1/events HTTP/1.1\r\nHost: shop.example.com\r\nX-Slow: ")
		ended(t, in, "headers")
	})
	t.Run("a body that does not end", func(t *testing.T) {
		t.Parallel()
		c, in := p.dial(t)
		fmt.Fprintf(c, "POST /v1/events HTTP/1.1\r\nHost: shop.example.com\r\nAuthorization: Bearer %s\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", operatorKey)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 408 || !strings.Contains(string(text), "request-timeout") {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
		ended(t, in, "body")
	})
	t.Run("others are served meanwhile", func(t *testing.T) {
		t.Parallel()
		for range 200 {
			c, _ := p.dial(t)
			fmt.Fprintf(c, "GET /")
		}
		began := time.Now()
		if a := p.bearing(t, operatorKey, "POST", "/v1/events", `{"type":"a.b","data":1}`, "Idempotency-Key", "quick"); a.status != 201 {
			t.Errorf("%d %s, after %s", a.status, a.text, time.Since(began))
		}
	})
}

func TestWhatIsTooLargeIsRefusedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), asked, "serve")
	c, in := p.dial(t)
	go fmt.Fprintf(c, "GET /v1/events HTTP/1.1\r\nHost: shop.example.com\r\nX-Large: %s\r\n\r\n", strings.Repeat("a", 64<<10))
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 431 {
		t.Errorf("headers: %v, %v", resp, err)
	}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/events", `{"type":"a.b","data":` + deep(256) + `}`, 201},
		{"POST", "/v1/events", `{"type":"a.b","data":` + deep(257) + `}`, 422},
		{"POST", "/v1/events", `{"type":"a.b","data":` + deep(100_000) + `}`, 400},
		{"POST", "/v1/events", deep(100_000), 400},
		{"PUT", "/v1/receivers/r", deep(30_000), 400},
		{"PUT", "/v1/receivers/r", `{"events":` + deep(30_000) + `}`, 400},
		{"PUT", "/v1/receivers/r", `{"events":["` + strings.Repeat("a", 70_000) + `"]}`, 413},
		{"PUT", "/v1/event-types/a.b", `{"schema":` + deep(30_000) + `}`, 400},
		{"POST", "/v1/deliveries/cancel", deep(400_000), 400},
	} {
		a := p.bearing(t, operatorKey, c.method, c.path, c.body, "Idempotency-Key", fmt.Sprint(len(c.body)))
		if a.status != c.status && !(c.status == 400 && a.status == 422) {
			t.Errorf("%s %s with %d bytes: %d %s", c.method, c.path, len(c.body), a.status, a.text)
		}
	}
	if a := p.bearing(t, operatorKey, "GET", "/v1/events", ""); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

// Nothing that is answered may be taken for a page, or shown within one.
func TestEveryAnswerIsWhatItSaysItIs(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_AUTH=off"}, "serve")
	for _, path := range []string{"/v1/events", "/v1/nothing", "/docs/", "/openapi.yaml", "/livez", "/readyz", "/metrics", "/problems/not-found", "/v1/catalogue", "/"} {
		a := p.call(t, "GET", path, "")
		if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Content-Type") == "" {
			t.Errorf("%s: %v", path, a.header)
		}
		if strings.HasPrefix(path, "/v1/") && a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be kept: %v", path, a.header)
		}
		if strings.Contains(a.header.Get("Content-Type"), "html") && (!strings.Contains(a.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") || a.header.Get("Referrer-Policy") != "no-referrer") {
			t.Errorf("%s is a page: %v", path, a.header)
		}
	}
}

// A page can have its own name lead to this machine. What a browser then sends is of one
// origin, and only the Host tells.
func TestAnAPIWithoutKeysAnswersToNoNameThatAPageCanHave(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	open, keyed := start(t, url, nil, "serve"), start(t, url, asked, "serve")
	ask := func(p *process, host string) int {
		req, err := http.NewRequest("GET", p.base+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Authorization", "Bearer "+operatorKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.hear(resp)
		if err != nil {
			t.Fatal(err)
		}
		return a.status
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(open.base, "http://"), ":")
	for host, status := range map[string]int{
		"evil.example.com": 403, "evil.example.com:" + port: 403, "EVIL.example.com.:" + port: 403, "page.github.io": 403, "127.0.0.1.nip.io:" + port: 403,
		"127.0.0.1:" + port: 200, "[::1]:" + port: 200, "localhost:" + port: 200, "LOCALHOST": 200, "shop.localhost": 200, "10.1.2.3": 200,
		"eventsvc:8080": 200, "host.docker.internal:8080": 200, "eventsvc.shop.svc.cluster.local": 200, "eventsvc.shop.svc": 200,
	} {
		if got := ask(open, host); got != status {
			t.Errorf("without keys, %s: %d", host, got)
		}
		if got := ask(keyed, host); got != 200 {
			t.Errorf("with keys, %s: %d", host, got)
		}
	}
}
