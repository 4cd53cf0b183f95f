package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// relayed is a forward proxy that knows CONNECT: it keeps what it was asked, and makes
// the tunnel, or says something else.
type relayed struct {
	net.Listener
	says func(c net.Conn) // nil: it does what it is asked
	mu   sync.Mutex
	got  []*http.Request
}

func forward(t *testing.T, l net.Listener, says func(net.Conn)) *relayed {
	t.Helper()
	r := &relayed{Listener: l, says: says}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { defer c.Close(); r.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return r
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	return must(net.Listen("tcp", "127.0.0.1:0"))
}

func (r *relayed) serve(c net.Conn) {
	c.SetDeadline(time.Now().Add(20 * time.Second))
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	r.mu.Lock()
	r.got = append(r.got, req)
	r.mu.Unlock()
	if r.says != nil {
		r.says(c)
		return
	}
	to, err := net.Dial("tcp", req.Host)
	if err != nil {
		io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	defer to.Close()
	io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { io.Copy(to, c); to.(*net.TCPConn).CloseWrite() }()
	io.Copy(c, to)
}

func (r *relayed) asked() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

func (r *relayed) url(user string) *url.URL {
	return must(url.Parse("http://" + user + r.Addr().String()))
}

// through is a courier that resolves every name to the answers, and dials by a proxy.
func through(t *testing.T, at *url.URL, answers ...string) *Courier {
	t.Helper()
	asked := make(chan []string, 1)
	asked <- answers
	close(asked)
	c := New(Options{Version: "test", Policy: NewPolicy(netip.MustParsePrefix("127.0.0.1/32")), DNS: resolver(t, asked), Proxy: at})
	t.Cleanup(c.CloseIdle)
	return c
}

// P8, T109: the proxy is asked for the address that was judged, never for a name, and
// the receiver is still spoken to, and verified, by its name.
func TestAProxyIsAskedForTheAddressThatWasJudged(t *testing.T) {
	hosts := make(chan string, 2)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hosts <- r.Host })
	plainly, securely := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plainly.Close)
	t.Cleanup(securely.Close)
	for scheme, server := range map[string]*httptest.Server{"http": plainly, "https": securely} {
		x := forward(t, loopback(t), nil)
		c := through(t, x.url("shop:s%20cret@"), "169.254.169.254", "127.0.0.1")
		trust(c, securely.Certificate())
		_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
		claim := claimFor(scheme + "://example.com:" + port + "/hook")
		for range 2 {
			if v := attempt(t, c, claim); v.Ruling != event.Success {
				t.Fatalf("%s: got %+v", scheme, v)
			}
			if host := <-hosts; host != "example.com:"+port {
				t.Errorf("%s: the receiver was called %s", scheme, host)
			}
		}
		asked := x.asked()
		if len(asked) != 1 || asked[0].Method != "CONNECT" || asked[0].Host != "127.0.0.1:"+port || asked[0].URL.Host != "127.0.0.1:"+port ||
			asked[0].Header.Get("Proxy-Authorization") != "Basic c2hvcDpzIGNyZXQ=" || asked[0].Header.Get("User-Agent") != "eventsvc/test" {
			t.Errorf("%s: the proxy was asked %+v", scheme, asked)
		}
	}
	x := forward(t, loopback(t), nil)
	c := through(t, x.url(""), "127.0.0.1")
	trust(c, securely.Certificate())
	_, port, _ := net.SplitHostPort(securely.Listener.Addr().String())
	if v := attempt(t, c, claimFor("https://shop.example.net:"+port+"/")); v.Class != event.ClassTLS || v.Reason != "the certificate is for another host" {
		t.Errorf("another name: got %+v", v)
	}
}

// P8: what is denied is not asked of a proxy either, for webhooks and on_failure alike.
func TestAProxyIsNeverAskedForADeniedAddress(t *testing.T) {
	x := forward(t, loopback(t), nil)
	for _, target := range []string{"http://shop.example.com/", "http://10.9.8.7/", "http://[::ffff:10.9.8.7]/", "https://169.254.169.254/"} {
		c := through(t, x.url(""), "10.9.8.7", "169.254.169.254")
		claim := claimFor(target)
		if v := attempt(t, c, claim); v.Class != event.ClassGuarded || strings.Contains(v.Reason, "9.8.7") {
			t.Errorf("%s: got %+v", target, v)
		}
		c = through(t, x.url(""), "10.9.8.7")
		claim.To.Receiver.OnFailure = target
		if err := c.Tell(context.Background(), claim.To, &event.Notice{}); err == nil || !strings.Contains(err.Error(), "egress policy") {
			t.Errorf("%s: on_failure: got %v", target, err)
		}
	}
	if v := attempt(t, through(t, x.url("")), claimFor("http://shop.example.com/")); v.Class != event.ClassDNS {
		t.Errorf("a name that does not resolve: got %+v", v)
	}
	if asked := x.asked(); len(asked) != 0 {
		t.Errorf("the proxy was asked %+v", asked)
	}
}

func TestOnFailureGoesThroughTheProxyToo(t *testing.T) {
	p := listen(t, says(ok+"Content-Length: 0\r\n\r\n"))
	x := forward(t, loopback(t), nil)
	claim := claimFor("http://shop.example.com/")
	claim.To.Receiver.OnFailure = strings.Replace(p.url(), "127.0.0.1", "shop.example.com", 1)
	if err := through(t, x.url(""), "127.0.0.1").Tell(context.Background(), claim.To, &event.Notice{}); err != nil {
		t.Error(err)
	}
	if len(x.asked()) != 1 || p.requests() != 1 {
		t.Errorf("the proxy was asked %d times, on_failure told %d times", len(x.asked()), p.requests())
	}
}

// P10: whatever a proxy does is an ordinary failure that names it, without an address.
func TestWhatAProxyGetsWrongIsSaidOfTheProxy(t *testing.T) {
	say := func(text string) func(net.Conn) { return func(c net.Conn) { io.WriteString(c, text) } }
	for name, c := range map[string]struct {
		says  func(net.Conn)
		class event.Class
		words string
	}{
		"refuses":   {say("HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nevil"), event.ClassConnect, "the egress proxy answered 403 Forbidden when it was asked for a tunnel"},
		"wants me":  {say("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"), event.ClassConnect, "check the user and password in EVENTSVC_EGRESS_PROXY"},
		"fails":     {say("HTTP/1.1 502 Bad Gateway\r\n\r\n"), event.ClassConnect, "the egress proxy answered 502 Bad Gateway"},
		"hangs up":  {func(net.Conn) {}, event.ClassConnect, "no answer that can be read"},
		"no HTTP":   {say("SSH-2.0-OpenSSH_9.6\r\n"), event.ClassConnect, "no answer that can be read"},
		"says more": {say("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), event.ClassProtocol, "of its own"},
		"floods": {func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X-A: "+strings.Repeat("a", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}, event.ClassConnect, "no answer that can be read"},
		"silence": {func(c net.Conn) { io.Copy(io.Discard, c) }, event.ClassTimeout, "no answer within 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := forward(t, loopback(t), c.says)
			claim := claimFor("http://shop.example.com/?key=hush", func(r *event.Receiver) { r.Timeout = time.Second })
			v := attempt(t, through(t, x.url("shop:secret@"), "127.0.0.1"), claim)
			if v.Ruling != event.Failure || v.Class != c.class || !strings.Contains(v.Reason, c.words) {
				t.Errorf("got %s %s: %s", v.Ruling, v.Class, v.Reason)
			}
			for _, secret := range []string{"127.0.0.1", "secret", "hush"} {
				if strings.Contains(v.Reason, secret) {
					t.Errorf("the reason tells %s: %s", secret, v.Reason)
				}
			}
		})
	}
	gone := loopback(t)
	gone.Close()
	at := must(url.Parse("http://" + gone.Addr().String()))
	if v := attempt(t, through(t, at, "127.0.0.1"), claimFor("http://shop.example.com/")); v.Class != event.ClassConnect || v.Reason != "the egress proxy cannot be reached: connection refused" {
		t.Errorf("nobody listens: got %+v", v)
	}
}

func TestAProxyBehindTLSIsVerified(t *testing.T) {
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	t.Cleanup(certificate.Close)
	p := listen(t, says(ok+"Content-Length: 0\r\n\r\n"))
	x := forward(t, tls.NewListener(loopback(t), &tls.Config{Certificates: certificate.TLS.Certificates}), nil)
	at := must(url.Parse("https://" + x.Addr().String()))
	target := strings.Replace(p.url(), "127.0.0.1", "shop.example.com", 1)
	if v := attempt(t, through(t, at, "127.0.0.1"), claimFor(target)); v.Class != event.ClassTLS || !strings.HasPrefix(v.Reason, "the egress proxy cannot be trusted: ") {
		t.Errorf("got %+v", v)
	}
	c := through(t, at, "127.0.0.1")
	known := newProxy(&Options{Policy: c.policy, DNS: c.dns, Proxy: at}, "test")
	known.tls.RootCAs = x509.NewCertPool()
	known.tls.RootCAs.AddCert(certificate.Certificate())
	c.wire = newWire(known.DialContext, false, false)
	if v := attempt(t, c, claimFor(target)); v.Ruling != event.Success {
		t.Errorf("got %+v", v)
	}
}

func TestAProxyIsReadFromItsURL(t *testing.T) {
	for _, good := range []string{"http://proxy.example.com:3128", "https://shop:secret@proxy.example.com/", "http://10.0.0.1:8080", "http://[::1]:3128"} {
		if u, err := ParseProxy(good); err != nil || u == nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	if u, err := ParseProxy(""); u != nil || err != nil {
		t.Errorf("got %v, %v", u, err)
	}
	for _, bad := range []string{"proxy.example.com:3128", "socks5://shop:hush@proxy.example.com", "http://", "http://proxy.example.com:0", "http://shop:hush@proxy.example.com/x", "http://proxy.example.com?a=hush", "http://shop:hush@[bad"} {
		if _, err := ParseProxy(bad); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}
