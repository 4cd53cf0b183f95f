package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// T110: an operator can ask why an address is denied, and sees what a tenant does not.
func TestAnOperatorCanAskWhyAnAddressIsDenied(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RELAY_WORKERS=0", "EVENTSVC_ALLOW_PRIVATE=10.0.0.0/8"}, "serve")
	for url, want := range map[string][3]string{
		"http://10.1.2.3/hook":       {"true", "", "opened by EVENTSVC_ALLOW_PRIVATE (10.0.0.0/8)"},
		"http://127.0.0.1/":          {"false", "loopback", "a loopback address (127.0.0.0/8)"},
		"http://localhost/":          {"false", "loopback", "a loopback address"},
		"http://169.254.169.254/":    {"false", "metadata", "a cloud's metadata address (169.254.169.254/32)"},
		"http://[64:ff9b::7f00:1]/":  {"false", "NAT64", "an IPv4 address behind NAT64 (64:ff9b::/96)"},
		"https://u:p@10.1.2.3/":      {"false", "password", ""},
		"https://shop.example.com:0": {"false", "port", ""},
	} {
		a := p.call(t, "POST", "/v1/egress/check", `{"url":"`+url+`"}`)
		if a.status != 200 || a.at("allowed") != want[0] || !strings.Contains(a.at("reason"), want[1]) || want[2] != "" && !strings.HasPrefix(a.at("addresses.0.rule"), want[2]) {
			t.Errorf("%s: %d %s", url, a.status, a.text)
		}
	}
	if a := p.call(t, "POST", "/v1/egress/check", `{}`); a.status != 422 || a.at("errors.0.pointer") != "/url" {
		t.Errorf("got %d %s", a.status, a.text)
	}
}

// P8: with EVENTSVC_EGRESS_PROXY every webhook goes through it, asked for by address.
func TestWebhooksGoThroughTheEgressProxy(t *testing.T) {
	t.Parallel()
	s := open(t, func(int, http.ResponseWriter, *http.Request) {})
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		go func() { io.Copy(to, conn); to.(*net.TCPConn).CloseWrite() }()
		io.Copy(conn, to)
	}))
	t.Cleanup(proxy.Close)
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_EGRESS_PROXY=" + proxy.URL}, "serve")
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.settled(t, p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id"), "succeeded")
	if got := <-asked; got != "CONNECT "+s.Listener.Addr().String() {
		t.Errorf("the proxy was asked %s", got)
	}
}
