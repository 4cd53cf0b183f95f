package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/eventsvc/eventsvc/internal/event"
)

// peer2 is a scripted receiver that speaks HTTP/2, frame by frame.
type peer2 struct {
	net.Listener
	script func(s *session)
	mu     sync.Mutex
	asked  []uint32 // the stream of each HEADERS that came, on any connection
	came   chan struct{}
	conns  []net.Conn
}

// session is one connection to it. A framer has one user at a time, and a script may drain
// beside what it says: each has one of its own, which write whole frames.
type session struct {
	*http2.Framer
	ears    *http2.Framer
	reading sync.Mutex // of ears
	net.Conn
	peer    *peer2
	nth     int // of the connections, from 1
	encoder *hpack.Encoder
	block   bytes.Buffer
}

func listen2(t testing.TB, a authority, script func(s *session)) *peer2 {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{a.issue("127.0.0.1", -time.Hour, time.Hour)}, NextProtos: []string{"h2"}}
	p := &peer2{script: script, came: make(chan struct{}, 100)}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	p.Listener = l
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { defer c.Close(); p.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); p.closeConns(); conns.Wait() })
	return p
}

func (p *peer2) closeConns() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

func (p *peer2) serve(c net.Conn) {
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, c)
	s := &session{Framer: http2.NewFramer(c, nil), ears: http2.NewFramer(c, c), Conn: c, peer: p, nth: len(p.conns)}
	p.mu.Unlock()
	s.encoder = hpack.NewEncoder(&s.block)
	p.script(s)
}

func (p *peer2) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

func (p *peer2) url() string { return "https://" + p.Addr().String() + "/hook" }

// await reads frames until the headers of a request have come, or all of it, and answers
// its stream; 0 is none.
func (s *session) await(whole bool) uint32 {
	s.reading.Lock()
	defer s.reading.Unlock()
	for {
		f, err := s.ears.ReadFrame()
		if err != nil {
			return 0
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				s.ears.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				s.ears.WritePing(true, f.Data)
			}
		case *http2.HeadersFrame:
			s.peer.mu.Lock()
			s.peer.asked = append(s.peer.asked, f.StreamID)
			s.peer.mu.Unlock()
			s.peer.came <- struct{}{}
			if !whole || f.StreamEnded() {
				return f.StreamID
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				return f.StreamID
			}
		}
	}
}

// drain reads what comes until the other side hangs up, counting requests.
func (s *session) drain() {
	for s.await(false) != 0 {
	}
}

// head is a block of headers.
func (s *session) head(pairs ...string) []byte {
	s.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		s.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return slices.Clone(s.block.Bytes())
}

func (s *session) answer(stream uint32, end bool, pairs ...string) {
	s.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: s.head(pairs...), EndHeaders: true, EndStream: end})
}

// once makes a script of what is said to one request.
func once(say func(s *session, stream uint32)) func(s *session) {
	return func(s *session) {
		s.WriteSettings()
		if stream := s.await(true); stream != 0 {
			say(s, stream)
			s.drain()
		}
	}
}

// forever makes a script of what is said to one request without end.
func forever(say func(s *session) error) func(s *session) {
	return once(func(s *session, _ uint32) {
		go io.Copy(io.Discard, s.Conn)
		for say(s) == nil {
		}
	})
}

func noStatus(v event.Verdict) bool { return v.HTTPStatus == 0 }

// P6 and P10 over HTTP/2: one row a peer, with the class it comes to and one request on the
// wire, whatever would have Go's client ask again.
func TestTheZooOfReceiversThatSpeakHTTP2(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for name, c := range map[string]struct {
		script func(s *session)
		ruling event.Ruling
		class  event.Class
		says   string // part of the reason
		check  func(event.Verdict) bool
	}{
		"200": {once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200", "content-type", "text/plain")
			s.WriteData(id, true, []byte("hi"))
		}), event.Success, "", "", keeps("hi")},
		"answer before the body": {func(s *session) {
			s.WriteSettings()
			s.answer(s.await(false), true, ":status", "413")
			s.drain()
		}, event.Failure, event.ClassHTTP4xx, "", nil},
		"after early hints": {once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "103", "link", "</a>")
			s.answer(id, true, ":status", "204")
		}), event.Success, "", "", nil},
		"trailers": {once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200", "trailer", "x-a")
			s.WriteData(id, false, []byte("hi"))
			s.answer(id, true, "x-a", "b")
		}), event.Success, "", "", keeps("hi")},
		"redirect":       {once(func(s *session, id uint32) { s.answer(id, true, ":status", "307", "location", "/x?token=y") }), event.Failure, event.ClassHTTP3xx, "", nil},
		"GOAWAY at once": {once(func(s *session, _ uint32) { s.WriteGoAway(0, http2.ErrCodeNo, []byte("hush")) }), event.Failure, event.ClassConnect, "GOAWAY", nil},
		"GOAWAY, enhance": {once(func(s *session, _ uint32) {
			s.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("hush"))
			s.Conn.Close()
		}), event.Failure, event.ClassConnect, "GOAWAY", nil},
		"GOAWAY, then an answer": {once(func(s *session, id uint32) {
			s.WriteGoAway(id, http2.ErrCodeNo, nil)
			s.answer(id, true, ":status", "200")
		}), event.Success, "", "", nil},
		"refused stream": {once(func(s *session, id uint32) { s.WriteRSTStream(id, http2.ErrCodeRefusedStream) }), event.Failure, event.ClassConnect, "REFUSED_STREAM", nil},
		"cancelled":      {once(func(s *session, id uint32) { s.WriteRSTStream(id, http2.ErrCodeCancel) }), event.Failure, event.ClassConnect, "CANCEL", nil},
		"protocol error": {once(func(s *session, id uint32) { s.WriteRSTStream(id, http2.ErrCodeProtocol) }), event.Failure, event.ClassConnect, "PROTOCOL_ERROR", nil},
		"wants HTTP/1.1": {once(func(s *session, id uint32) { s.WriteRSTStream(id, http2.ErrCodeHTTP11Required) }), event.Failure, event.ClassConnect, "HTTP_1_1_REQUIRED", nil},
		"hang-up":        {once(func(s *session, _ uint32) { s.Conn.Close() }), event.Failure, event.ClassConnect, "", nil},
		"hang-up before": {func(s *session) { s.WriteSettings() }, event.Failure, event.ClassConnect, "", nil},
		"no frames":      {once(func(s *session, _ uint32) { io.WriteString(s.Conn, strings.Repeat("x", 1000)) }), event.Failure, event.ClassProtocol, "HTTP/2", nil},
		"HTTP/1.1 bytes": {once(func(s *session, _ uint32) { io.WriteString(s.Conn, "HTTP/1.1 200 OK\r\n\r\n") }), event.Failure, event.ClassProtocol, "HTTP/2", nil},
		"no status":      {once(func(s *session, id uint32) { s.answer(id, true, "x-a", "b") }), event.Failure, event.ClassProtocol, "", nil},
		"status abc":     {once(func(s *session, id uint32) { s.answer(id, true, ":status", "abc") }), event.Failure, event.ClassProtocol, "", nil},
		"status 999":     {once(func(s *session, id uint32) { s.answer(id, true, ":status", "999") }), event.Failure, event.ClassProtocol, "", func(v event.Verdict) bool { return v.HTTPStatus == 999 }},
		"status 101":     {once(func(s *session, id uint32) { s.answer(id, false, ":status", "101") }), event.Failure, event.ClassTimeout, "", nil},
		"status -200":    {once(func(s *session, id uint32) { s.answer(id, true, ":status", "-200") }), event.Failure, event.ClassProtocol, ":status", noStatus},
		"status +200":    {once(func(s *session, id uint32) { s.answer(id, true, ":status", "+200") }), event.Failure, event.ClassProtocol, ":status", noStatus},
		"status 0200":    {once(func(s *session, id uint32) { s.answer(id, true, ":status", "0200") }), event.Failure, event.ClassProtocol, ":status", noStatus},
		"status 70000":   {once(func(s *session, id uint32) { s.answer(id, true, ":status", "70000") }), event.Failure, event.ClassProtocol, ":status", noStatus},
		"two statuses":   {once(func(s *session, id uint32) { s.answer(id, true, ":status", "200", ":status", "500") }), event.Failure, event.ClassProtocol, "", noStatus},
		"silence":        {once(func(*session, uint32) {}), event.Failure, event.ClassTimeout, "no answer within 1s", nil},
		"no window": {func(s *session) {
			s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			s.await(false)
			s.drain()
		}, event.Failure, event.ClassTimeout, "", nil},
		"headers of 40 KiB":       {once(func(s *session, id uint32) { s.flood(id, "x-a", 40, true) }), event.Success, "", "", nil},
		"headers of 10 MiB":       {once(func(s *session, id uint32) { s.flood(id, "x-a", 10<<10, true) }), event.Failure, event.ClassProtocol, "", nil},
		"headers that do not end": {once(func(s *session, id uint32) { s.flood(id, "x-a", 1<<20, false) }), event.Failure, event.ClassProtocol, "", nil},
		"1xx flood": {once(func(s *session, id uint32) {
			for range 1 << 20 {
				if s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.head(":status", "103", "link", strings.Repeat("a", 100)), EndHeaders: true}) != nil {
					return
				}
			}
		}), event.Failure, event.ClassProtocol, "", nil},
		"early hints, 100000 times": {once(func(s *session, id uint32) {
			for range 100_000 {
				if s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.head(":status", "103"), EndHeaders: true}) != nil {
					return
				}
			}
		}), event.Failure, event.ClassProtocol, "", nil},
		"SETTINGS flood": {once(func(s *session, id uint32) {
			for range 5000 {
				if s.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}) != nil {
					return
				}
			}
			s.answer(id, true, ":status", "200")
		}), event.Success, "", "", nil},
		"SETTINGS without end":         {forever(func(s *session) error { return s.WriteSettings() }), event.Failure, event.ClassProtocol, "sent more than any answer", nil},
		"PINGs without end":            {forever(func(s *session) error { return s.WritePing(false, [8]byte{}) }), event.Failure, event.ClassProtocol, "sent more than any answer", nil},
		"unknown frames without end":   {forever(func(s *session) error { return s.WriteRawFrame(0x77, 0, 0, make([]byte, 100)) }), event.Failure, event.ClassProtocol, "sent more than any answer", nil},
		"empty frames without end":     {forever(func(s *session) error { return s.WriteRawFrame(0x77, 0, 0, nil) }), event.Failure, event.ClassProtocol, "sent more than any answer", nil},
		"window of a stream overflows": {once(func(s *session, id uint32) { s.WriteWindowUpdate(id, 1<<31-1) }), event.Failure, event.ClassProtocol, "FLOW_CONTROL_ERROR", nil},
		"window overflows":             {once(func(s *session, _ uint32) { s.WriteWindowUpdate(0, 1<<31-1) }), event.Failure, event.ClassProtocol, "FLOW_CONTROL_ERROR", nil},
		"push": {once(func(s *session, id uint32) {
			s.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, BlockFragment: s.head(":method", "GET"), EndHeaders: true})
		}), event.Failure, event.ClassProtocol, "PROTOCOL_ERROR", nil},
		"data before headers":        {once(func(s *session, id uint32) { s.WriteData(id, true, []byte("hi")) }), event.Failure, event.ClassProtocol, "PROTOCOL_ERROR", nil},
		"data that nobody asked for": {once(func(s *session, id uint32) { s.WriteData(id+2, true, []byte("hi")) }), event.Failure, event.ClassProtocol, "PROTOCOL_ERROR", nil},
		"data beyond its length": {once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200", "content-length", "2")
			s.WriteData(id, true, []byte("hello"))
		}), event.Success, "", "", keeps("he")},
		"less data than its length": {once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200", "content-length", "9")
			s.WriteData(id, true, []byte("hi"))
		}), event.Success, "", "", keeps("hi")},
		"trailers of 10 MiB": {once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			s.WriteData(id, false, []byte("hi"))
			s.flood(id, "x-a", 10<<10, true)
		}), event.Success, "", "", keeps("hi")},
		"headers and no more": {once(func(s *session, id uint32) { s.answer(id, false, ":status", "200") }), event.Success, "", "", keeps("")},
		"no window, and an answer that does not end": {func(s *session) {
			s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			s.answer(s.await(false), false, ":status", "200")
			s.drain()
		}, event.Success, "", "", nil},
		"no room for headers": {func(s *session) {
			s.WriteSettings(http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 10})
			s.drain()
		}, event.Failure, event.ClassProtocol, "MAX_HEADER_LIST_SIZE", nil},
		"PING flood": {once(func(s *session, id uint32) {
			for n := range 5000 {
				if s.WritePing(false, [8]byte{byte(n)}) != nil {
					return
				}
			}
			s.answer(id, true, ":status", "200")
		}), event.Success, "", "", nil},
		"endless body": {once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			go s.drain()
			for s.WriteData(id, false, make([]byte, 1<<14)) == nil {
			}
		}), event.Success, "", "", func(v event.Verdict) bool { return v.Evidence.Response.Cut }},
		"body that drips": {once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			go s.drain()
			for tick := time.NewTicker(50 * time.Millisecond); s.WriteData(id, false, []byte("h")) == nil; <-tick.C {
			}
		}), event.Success, "", "", nil},
		"body, then a reset": {once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			s.WriteData(id, false, []byte("short"))
			s.WriteRSTStream(id, http2.ErrCodeInternal)
		}), event.Success, "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := listen2(t, a, c.script)
			courier := a.trusting(t)
			timeout := 15 * time.Second
			if c.class == event.ClassTimeout {
				timeout = time.Second
			}
			began := time.Now()
			v := attempt(t, courier, claimFor(p.url(), func(r *event.Receiver) { r.Timeout = timeout }))
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			if v.Ruling != c.ruling || v.Class != c.class || !strings.Contains(v.Reason, c.says) || c.check != nil && !c.check(v) {
				t.Errorf("got %s %s: %s, %+v", v.Ruling, v.Class, v.Reason, v.Evidence)
			}
			for _, secret := range []string{"127.0.0.1", "hush", "token", "GetBody"} {
				if strings.Contains(v.Reason, secret) {
					t.Errorf("the reason tells %s: %s", secret, v.Reason)
				}
			}
			courier.CloseIdle()
			if n := p.requests(); n > 1 || n == 0 && name != "hang-up before" && name != "no room for headers" {
				t.Errorf("%d requests on the wire, want 1", n)
			}
		})
	}
}

// flood answers with about so many KiB of headers.
func (s *session) flood(id uint32, name string, kib int, end bool) {
	if s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.head(":status", "200"), EndStream: end}) != nil {
		return
	}
	for n := range kib {
		block := []byte{0x00, byte(len(name))} // a literal that is not indexed
		block = append(block, name...)
		block = append(block, 0x7f, 0xe9, 0x07) // of 127+105+7*128 bytes
		block = append(block, bytes.Repeat([]byte("a"), 127+105+7*128)...)
		if s.WriteContinuation(id, end && n == kib-1, block) != nil {
			return
		}
	}
}

// A kept connection that the peer closes, or leaves, costs an attempt at most, and no
// request is sent twice.
func TestOneAttemptIsOneRequestOnADeadHTTP2Connection(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for name, last := range map[string]func(s *session, id uint32){
		"closed": func(s *session, _ uint32) { s.Conn.Close() },
		"GOAWAY": func(s *session, id uint32) { s.WriteGoAway(id-2, http2.ErrCodeNo, nil); s.drain() },
		"refused stream": func(s *session, id uint32) {
			s.WriteRSTStream(id, http2.ErrCodeRefusedStream)
			s.answer(s.await(true), true, ":status", "200")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := listen2(t, a, func(s *session) {
				s.WriteSettings()
				s.answer(s.await(true), true, ":status", "200")
				if s.nth == 1 {
					last(s, s.await(true))
					return
				}
				s.drain()
			})
			courier := a.trusting(t)
			for n, want := range []event.Ruling{event.Success, event.Failure, event.Success} {
				v := attempt(t, courier, claimFor(p.url(), func(r *event.Receiver) {
					r.Timeout, r.Headers = 5*time.Second, map[string]string{"Idempotency-Key": "1"}
				}))
				if v.Ruling != want {
					t.Errorf("attempt %d: %s %s", n+1, v.Ruling, v.Reason)
				}
				if p.requests() != n+1 {
					t.Errorf("after attempt %d: %d requests on the wire", n+1, p.requests())
				}
			}
		})
	}
}

// Attempts share a connection, and each has its own end: one that is not answered holds
// up no other, and a peer that takes one at a time is given more connections.
func TestAnAttemptThatIsNotAnsweredHoldsUpNoOtherOnItsConnection(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for name, settings := range map[string][]http2.Setting{"many at once": nil, "one at a time": {{ID: http2.SettingMaxConcurrentStreams, Val: 1}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := listen2(t, a, func(s *session) {
				s.WriteSettings(settings...)
				for {
					id := s.await(true)
					if id == 0 {
						return
					}
					if s.nth > 1 || id > 1 { // the first is left without an answer
						s.answer(id, true, ":status", "200")
					}
				}
			})
			courier := a.trusting(t)
			slow := make(chan event.Verdict, 1)
			go func() {
				slow <- courier.Attempt(context.Background(), claimFor(p.url(), func(r *event.Receiver) { r.Timeout = 3 * time.Second }))
			}()
			<-p.came
			for range 20 {
				if v := attempt(t, courier, claimFor(p.url())); v.Ruling != event.Success || v.Duration > 2*time.Second {
					t.Errorf("%s %s after %s", v.Ruling, v.Reason, v.Duration)
				}
			}
			if v := <-slow; v.Class != event.ClassTimeout {
				t.Errorf("the slow one: %s %s", v.Ruling, v.Reason)
			}
			if p.requests() != 21 {
				t.Errorf("%d requests on the wire", p.requests())
			}
		})
	}
}
