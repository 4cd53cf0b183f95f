package webhook

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/eventsvc/eventsvc/internal/event"
)

// strict1 is a courier that knows an authority and was told to speak HTTP/1.1 alone.
func (a authority) strict1(t *testing.T) *Courier {
	t.Helper()
	c := New(Options{Policy: NewPolicy(netip.MustParsePrefix("127.0.0.1/32")), HTTP1: true})
	t.Cleanup(c.CloseIdle)
	trust(c, a.cert)
	return c
}

func TestHTTP1AloneIsSpokenWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server, protocols := secure(t, &tls.Config{Certificates: []tls.Certificate{a.issue("127.0.0.1", -time.Hour, time.Hour)}})
	c := a.strict1(t)
	if v := attempt(t, c, claimFor(server.URL)); v.Ruling != event.Success {
		t.Errorf("got %+v", v)
	}
	if got := <-protocols; got != "HTTP/1.1" {
		t.Errorf("spoke %s", got)
	}
	claim := claimFor(server.URL)
	claim.To.Receiver.OnFailure = server.URL
	if err := c.Tell(t.Context(), claim.To, &event.Notice{}); err != nil {
		t.Error(err)
	}
	if got := <-protocols; got != "HTTP/1.1" {
		t.Errorf("on_failure was told by %s", got)
	}
}

// both is a receiver whose HTTP/2 follows a script, and whose HTTP/1.1 answers 200.
func both(t *testing.T, a authority, script func(s *session)) (p *peer2, spoken func() int) {
	t.Helper()
	p = &peer2{script: script, came: make(chan struct{}, 1000)}
	asked := make(chan bool, 1000)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- true }))
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) { p.serve(c) },
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue("127.0.0.1", -time.Hour, time.Hour)}, NextProtos: []string{"h2", "http/1.1"}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	p.Listener = server.Listener
	t.Cleanup(func() { p.closeConns(); server.CloseClientConnections(); server.Close() })
	return p, func() int { return len(asked) }
}

// A peer that offers HTTP/2 and then takes no request over it is not unreachable: it is
// spoken to by HTTP/1.1 for an hour.
func TestAPeerWhoseHTTP2TakesNoRequestIsSpokenToByHTTP1(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for name, c := range map[string]struct {
		script func(s *session)
		lost   int // attempts
	}{
		"HTTP_1_1_REQUIRED": {once(func(s *session, id uint32) { s.WriteRSTStream(id, http2.ErrCodeHTTP11Required) }), 1},
		"GOAWAY":            {once(func(s *session, _ uint32) { s.WriteGoAway(0, http2.ErrCodeHTTP11Required, nil); s.Conn.Close() }), 1},
		"refused streams": {func(s *session) {
			s.WriteSettings()
			for id := s.await(true); id != 0; id = s.await(true) {
				s.WriteRSTStream(id, http2.ErrCodeRefusedStream)
			}
		}, refusalsMost},
		"no streams": {func(s *session) {
			s.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
			s.drain()
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, spoken := both(t, a, c.script)
			courier := a.trusting(t)
			for n := range 6 {
				v := attempt(t, courier, claimFor(p.url()))
				if n < c.lost && v.Class != event.ClassConnect || n >= c.lost && v.Ruling != event.Success {
					t.Errorf("attempt %d: %s %s %s", n+1, v.Ruling, v.Class, v.Reason)
				}
				if on2, on1 := p.requests(), spoken(); on2+on1 != n+1 || on2 != min(n+1, c.lost) {
					t.Errorf("after attempt %d: %d requests over HTTP/2 and %d over HTTP/1.1", n+1, on2, on1)
				}
			}
		})
	}
}

// late is a connection whose end is read once it may be.
type late struct {
	net.Conn
	may <-chan struct{}
}

func (l late) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if err != nil {
		<-l.may
	}
	return n, err
}

// A connection that we close after an attempt takes none before net/http knows that it is
// closed: that one would be lost, and not counted against the host.
func TestAConnectionThatWeClosedCostsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		var asked atomic.Int32
		// A pipe holds nothing: the peer writes only what is read at once.
		p := &peer2{script: func(s *session) {
			s.WriteSettings()
			for f, err := s.ears.ReadFrame(); err == nil; f, err = s.ears.ReadFrame() {
				if f, ok := f.(*http2.DataFrame); ok && f.StreamEnded() {
					asked.Add(1)
					s.WriteRSTStream(f.StreamID, http2.ErrCodeRefusedStream)
				}
			}
		}}
		config := &tls.Config{
			Certificates: []tls.Certificate{a.issue("127.0.0.1", -time.Hour, time.Hour)}, NextProtos: []string{"h2"}, SessionTicketsDisabled: true,
		}
		known := make(chan struct{})
		c := courier(t)
		c.wire = newWire(func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go p.serve(tls.Server(theirs, config))
			return late{ours, known}, nil
		}, false, false)
		trust(c, a.cert)
		verdicts := make(chan event.Verdict, 2)
		for range 2 {
			go func() { verdicts <- attempt(t, c, claimFor("https://127.0.0.1/hook")) }()
			synctest.Wait()
		}
		close(known)
		for range 2 {
			if v := <-verdicts; v.Class != event.ClassConnect || !strings.Contains(v.Reason, "REFUSED_STREAM") {
				t.Errorf("%s %s %s", v.Ruling, v.Class, v.Reason)
			}
		}
		if asked.Load() != 2 || c.wire.stale.hosts["127.0.0.1"].refusals != 2 {
			t.Errorf("%d requests for 2 attempts, and %+v", asked.Load(), c.wire.stale.hosts)
		}
	})
}

// A peer that speaks HTTP/2 alone is not shut out for an hour by having refused some.
func TestAPeerThatSpeaksNoHTTP1IsAskedByHTTP2Again(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	p := listen2(t, a, func(s *session) {
		s.WriteSettings()
		for id := s.await(true); id != 0; id = s.await(true) {
			if s.peer.requests() <= refusalsMost {
				s.WriteRSTStream(id, http2.ErrCodeRefusedStream)
				continue
			}
			s.answer(id, true, ":status", "200")
		}
	})
	courier := a.trusting(t)
	for n, want := range []event.Class{event.ClassConnect, event.ClassConnect, event.ClassConnect, event.ClassTimeout, "", ""} {
		v := attempt(t, courier, claimFor(p.url(), func(r *event.Receiver) { r.Timeout = time.Second }))
		if v.Class != want {
			t.Errorf("attempt %d: %s %s %s, want %s", n+1, v.Ruling, v.Class, v.Reason, want)
		}
	}
}

func TestWhatIsRememberedOfHostsEndsAndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s staleHosts
		s.add("a:443")
		for range refusalsMost - 1 {
			s.refused("b:443")
			s.refused("c:443")
		}
		s.answered("c:443")
		s.refused("c:443")
		if !s.has("a:443") || s.has("b:443") || s.has("c:443") || s.has("a:8443") {
			t.Errorf("got %+v", s.hosts)
		}
		if s.refused("b:443"); !s.has("b:443") {
			t.Error("b is forgotten")
		}
		time.Sleep(staleFor)
		if !s.has("a:443") {
			t.Error("a is forgotten early")
		}
		time.Sleep(time.Nanosecond)
		if s.has("a:443") || s.has("b:443") {
			t.Error("a or b is remembered for too long")
		}
		for n := range 2 * maxStale {
			s.add(strings.Repeat("x", n%7) + strconv.Itoa(n))
		}
		if len(s.hosts) > maxStale {
			t.Errorf("%d hosts are remembered", len(s.hosts))
		}
	})
}

// P8: an address is judged for each connection of HTTP/2 too, and one that a certificate
// would do for is not shared by names, through a proxy or without. on_failure goes the same
// way.
func TestAConnectionOfHTTP2IsNotSharedByNames(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.StartTLS() // for example.com and all that is below
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for name, at := range map[string]*url.URL{"directly": nil, "through a proxy": forward(t, loopback(t), nil).url("")} {
		answers := make(chan []string, 4)
		answers <- []string{"127.0.0.1"}
		answers <- []string{"127.0.0.1"}
		answers <- []string{"10.9.8.7"}
		close(answers)
		c := New(Options{Policy: NewPolicy(netip.MustParsePrefix("127.0.0.1/32")), DNS: resolver(t, answers), Proxy: at})
		t.Cleanup(c.CloseIdle)
		trust(c, server.Certificate())
		conns.Store(0)
		for n, host := range []string{"example.com", "a.example.com", "example.com", "a.example.com"} {
			if v := attempt(t, c, claimFor("https://"+host+":"+port+"/")); v.Ruling != event.Success || v.Evidence.Timings.Reused != (n > 1) {
				t.Errorf("%s, %s: %s %s, reused: %v", name, host, v.Ruling, v.Reason, v.Evidence.Timings.Reused)
			}
		}
		if conns.Load() != 2 {
			t.Errorf("%s: %d connections", name, conns.Load())
		}
		claim := claimFor("https://example.com:" + port + "/")
		claim.To.Receiver.OnFailure = claim.To.URL
		if err := c.Tell(t.Context(), claim.To, &event.Notice{}); err != nil || conns.Load() != 2 {
			t.Errorf("%s: on_failure: %v, by %d connections", name, err, conns.Load())
		}
		claim.To.Receiver.OnFailure = "https://b.example.com:" + port + "/"
		if err := c.Tell(t.Context(), claim.To, &event.Notice{}); err == nil || !strings.Contains(err.Error(), "egress policy") {
			t.Errorf("%s: on_failure to a denied address: %v", name, err)
		}
	}
}
