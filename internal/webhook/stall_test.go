package webhook

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/eventsvc/eventsvc/internal/event"
)

// narrow has a courier's connections take little that the peer does not read.
func narrow(c *Courier) {
	dial := c.wire.new.DialContext
	c.wire.new.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			conn.(*line).Conn.(*net.TCPConn).SetWriteBuffer(4096)
		}
		return conn, err
	}
}

// large has a delivery be as large as it may.
func large(claim *event.Claim) *event.Claim {
	claim.Event.Data = []byte(`"` + strings.Repeat("a", event.MaxData-2) + `"`)
	return claim
}

// P10: an attempt ends when its time is over, whatever the peer of HTTP/2 reads and says.
func TestAnAttemptEndsInItsTimeWhateverAPeerOfHTTP2Does(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	wide := func(s *session) {
		s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24})
		s.WriteWindowUpdate(0, 1<<24)
	}
	for name, c := range map[string]struct {
		script  func(s *session, left <-chan struct{})
		answers bool
	}{
		"never reads":                      {func(_ *session, left <-chan struct{}) { <-left }, false},
		"does not read after its settings": {func(s *session, left <-chan struct{}) { wide(s); <-left }, false},
		"does not read the body":           {func(s *session, left <-chan struct{}) { wide(s); s.await(false); <-left }, false},
		"answers and does not read the body": {func(s *session, left <-chan struct{}) {
			wide(s)
			s.answer(s.await(false), false, ":status", "200")
			<-left
		}, true},
		"answers with a body and does not read": {func(s *session, left <-chan struct{}) {
			wide(s)
			id := s.await(false)
			s.answer(id, false, ":status", "200")
			for range 7 {
				s.WriteData(id, false, make([]byte, 1<<14))
			}
			<-left
		}, true},
		"answers, grants nothing, and pings": {func(s *session, left <-chan struct{}) {
			s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			id := s.await(false)
			s.answer(id, false, ":status", "200")
			for tick := time.NewTicker(20 * time.Millisecond); ; {
				select {
				case <-left:
					return
				case <-tick.C:
					s.WritePing(false, [8]byte{})
				}
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := make(chan struct{})
			p := listen2(t, a, func(s *session) {
				s.Conn.(*tls.Conn).NetConn().(*net.TCPConn).SetReadBuffer(4096)
				c.script(s, left)
			})
			t.Cleanup(func() { close(left) })
			courier := a.trusting(t)
			narrow(courier)
			at, timeout := 8, time.Second
			if c.answers { // the first request of a connection
				at, timeout = 1, 5*time.Second
			}
			var all sync.WaitGroup
			for range at {
				all.Go(func() {
					began := time.Now()
					v := attempt(t, courier, large(claimFor(p.url(), func(r *event.Receiver) { r.Timeout = timeout })))
					if took := time.Since(began); took > timeout+2*time.Second || v.Ruling != event.Failure && !c.answers {
						t.Errorf("%s %s after %v: %s", v.Ruling, v.Class, took, v.Reason)
					}
				})
			}
			all.Wait()
		})
	}
}

// An attempt that is not answered costs no other: its connection is not used again.
func TestASilentConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	p := listen2(t, a, func(s *session) {
		s.WriteSettings()
		s.answer(s.await(true), true, ":status", "200")
		if s.nth == 1 {
			s.await(true)
			s.await(true)
			return
		}
		s.drain()
	})
	courier := a.trusting(t)
	for n, want := range []event.Class{"", event.ClassTimeout, ""} {
		if v := attempt(t, courier, claimFor(p.url(), func(r *event.Receiver) { r.Timeout = time.Second })); v.Class != want {
			t.Errorf("attempt %d: %s %s %s", n+1, v.Ruling, v.Class, v.Reason)
		}
	}
}

// Nor does it cost those that are on the connection with it, where the peer has answered
// before it took the body, and says no more.
func TestAnAnswerThatDoesNotEndHarmsNoOtherOnItsConnection(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	heard := make(chan bool)
	p := listen2(t, a, func(s *session) {
		s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		first, second := s.await(false), s.await(false)
		s.answer(first, false, ":status", "200")
		<-heard
		s.WriteWindowUpdate(second, 1<<16)
		s.answer(second, true, ":status", "204")
		s.drain()
	})
	courier := a.trusting(t)
	verdicts := make(chan event.Verdict, 2)
	for range 2 {
		go func() {
			verdicts <- courier.Attempt(context.Background(), claimFor(p.url(), func(r *event.Receiver) { r.Timeout = 10 * time.Second }))
		}()
		<-p.came
	}
	for n, want := range []int{200, 204} {
		if v := <-verdicts; v.HTTPStatus != want {
			t.Errorf("the %d. to end: %s %s %s", n+1, v.Ruling, v.Class, v.Reason)
		}
		if n == 0 {
			close(heard)
		}
	}
}

// A peer cannot have us hold many connections open: by being full as soon as it is reached,
// or as soon as it has answered.
func TestAPeerCannotHoldManyConnectionsOpen(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	full := http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0}
	for name, script := range map[string]func(s *session){
		"full at once": func(s *session) { s.WriteSettings(full); s.drain() },
		"full once it answered": func(s *session) {
			s.WriteSettings()
			s.answer(s.await(true), true, ":status", "200")
			s.WriteSettings(full)
			s.drain()
		},
		"goes away, and stays": func(s *session) {
			s.WriteSettings()
			id := s.await(true)
			s.answer(id, true, ":status", "200")
			s.WriteGoAway(id, http2.ErrCodeNo, nil)
			s.drain()
		},
		"does not answer": func(s *session) {
			s.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
			s.drain()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var open, all atomic.Int32
			p, _ := both(t, a, func(s *session) { all.Add(1); open.Add(1); defer open.Add(-1); script(s) })
			courier := a.trusting(t)
			for range 100 {
				timeout := time.Second // a request may be on its way as the peer says that it is full
				switch name {
				case "full at once":
					timeout = 10 * time.Second
				case "does not answer":
					timeout = 50 * time.Millisecond
				}
				attempt(t, courier, claimFor(p.url(), func(r *event.Receiver) { r.Timeout = timeout }))
			}
			eventually(t, func() bool { return open.Load() <= unusedPerHost })
			if all.Load() > 110 {
				t.Errorf("%d connections were made", all.Load())
			}
		})
	}
}

// Nor by accepting those that come too late for the attempt they were opened for.
func TestConnectionsThatNobodyUsedYetAreBounded(t *testing.T) {
	var open atomic.Int32
	ls := newLines()
	dial := ls.dial(func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		open.Add(1)
		go func() { io.Copy(io.Discard, theirs); open.Add(-1) }()
		t.Cleanup(func() { ours.Close() })
		return ours, nil
	})
	for range 2 * idlePerHost {
		must(dial(context.WithValue(t.Context(), dialler{}, &sighting{}), "tcp", "shop.example.com:443"))
	}
	eventually(t, func() bool { return open.Load() <= idlePerHost })
	if _, err := dial(context.WithValue(t.Context(), dialler{}, &sighting{opened: make([]*line, dialsPerAttempt)}), "tcp", "shop.example.com:443"); err != errCrowded {
		t.Errorf("one attempt too many: %v", err)
	}
}

// eventually asks until something holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(10 * time.Second); !holds(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it never holds")
		}
	}
}

// No attempt fails only because a peer takes few requests at once: those beyond are not
// put on the connection, and go out by another.
func TestNoAttemptFailsBecauseAConnectionIsFull(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	var refused atomic.Int32
	p, spoken := both(t, a, func(s *session) {
		s.ears.ReadFrame() // settings
		s.ears.ReadFrame() // a window; what may come now are requests
		s.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		busy, whole, told := uint32(0), false, false
		for {
			f, err := s.ears.ReadFrame()
			if err != nil {
				return
			}
			switch f := f.(type) {
			case *http2.HeadersFrame:
				if busy != 0 {
					refused.Add(1)
					s.WriteRSTStream(f.StreamID, http2.ErrCodeRefusedStream)
					continue
				}
				busy = f.StreamID
				s.peer.mu.Lock()
				s.peer.asked = append(s.peer.asked, busy)
				s.peer.mu.Unlock()
			case *http2.DataFrame:
				whole = f.StreamEnded() && f.StreamID == busy
			case *http2.SettingsFrame:
				told = true
			case *http2.PingFrame:
				s.WritePing(true, f.Data)
			}
			if whole && told {
				s.answer(busy, true, ":status", "200")
				busy, whole = 0, false
			}
		}
	})
	courier := a.trusting(t)
	const burst = 32
	var all sync.WaitGroup
	for range burst {
		all.Go(func() {
			v := attempt(t, courier, claimFor(p.url(), func(r *event.Receiver) { r.Timeout = 15 * time.Second }))
			if v.Ruling != event.Success {
				t.Errorf("%s %s: %s", v.Ruling, v.Class, v.Reason)
			}
		})
	}
	all.Wait()
	if refused.Load() != 0 || p.requests()+spoken() != burst {
		t.Errorf("%d refused, %d by HTTP/2, %d by HTTP/1.1", refused.Load(), p.requests(), spoken())
	}
}
