//go:build unix

package webhook

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// sized is a claim whose request has a body of so many bytes.
func sized(url string, n int) *event.Claim {
	claim := claimFor(url, func(r *event.Receiver) { r.Format = event.FormatRaw; r.Timeout = 3 * time.Second })
	claim.Format = event.FormatRaw
	claim.Event.Data = []byte(`"` + strings.Repeat("a", n-2) + `"`)
	return claim
}

// Requests of either kind are one request each, whole, on both sides of the bound between
// them.
func TestARequestWithoutTLSArrivesWholeWhateverItsSize(t *testing.T) {
	t.Parallel()
	p := listen(t, func(_ int, c net.Conn) bool { io.WriteString(c, ok+"Content-Length: 0\r\n\r\n"); return true })
	c := courier(t)
	sizes := []int{2, maxClear - 1, maxClear, maxClear + 1, event.MaxData}
	for i, n := range sizes {
		claim := sized(p.url(), n)
		if v := attempt(t, c, claim); v.Ruling != event.Success {
			t.Fatalf("%d bytes: %+v", n, v)
		}
		if want := "POST /hook\n" + string(claim.Event.Data); p.requests() != i+1 || p.got[i] != want {
			t.Errorf("%d bytes: %d requests, the last of %d bytes", n, p.requests(), len(p.got[i]))
		}
	}
}

// A peer that answers before it has read the request, and reads no more of it, is heard.
func TestAnAnswerThatComesBeforeTheRequestWasReadIsHeard(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1024, maxClear, maxClear + 1, event.MaxData} {
		for _, hangsUp := range []bool{false, true} {
			l := accept(t, func(c net.Conn) {
				bufio.NewReader(c).ReadString('\n')
				io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				if !hangsUp {
					time.Sleep(2 * bodyPatience)
					return
				}
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, c)
			})
			v := attempt(t, courier(t), sized("http://"+l.Addr().String()+"/", n))
			if v.HTTPStatus != http.StatusRequestEntityTooLarge {
				t.Errorf("%d bytes, hangs up: %v: %+v", n, hangsUp, v)
			}
		}
	}
}

// Wherever in a request its peer turns out gone, that is what is said, and no address.
func TestAResetWhileARequestIsWrittenIsToldAsOne(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1024, maxClear} { // within the buffer, and beyond it
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		c := courier(t)
		dial := c.wire.clear.dial
		c.wire.clear.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			peer, err := l.Accept()
			if err != nil {
				return nil, err
			}
			peer.(*net.TCPConn).SetLinger(0)
			return conn, peer.Close()
		}
		v := attempt(t, c, sized("http://"+l.Addr().String()+"/", n))
		if v.Class != event.ClassConnect || v.Reason != "the connection was reset before an answer came" {
			t.Errorf("%d bytes: %+v", n, v)
		}
	}
}

// What a connection may not hold goes by net/http, which reads while it writes.
func TestALongRequestIsAnsweredThoughTheConnectionHoldsLittle(t *testing.T) {
	t.Parallel()
	l := accept(t, func(c net.Conn) {
		c.(*net.TCPConn).SetReadBuffer(4096)
		bufio.NewReaderSize(c, 16).ReadString('\n')
		io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
		time.Sleep(4 * time.Second)
	})
	c := courier(t)
	dial := c.wire.clear.dial
	c.wire = newWire(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			conn.(*net.TCPConn).SetWriteBuffer(4096)
		}
		return conn, err
	}, false, true)
	claim := sized("http://"+l.Addr().String()+"/", event.MaxData)
	if v := attempt(t, c, claim); v.HTTPStatus != http.StatusRequestEntityTooLarge || v.Duration > claim.To.Receiver.Timeout*2/3 {
		t.Errorf("got %+v", v)
	}
}

// A connection that its peer has closed, or has spoken on unasked, costs no attempt.
func TestAnIdleConnectionThatIsNoGoodIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(net.Conn){
		"closed":          func(c net.Conn) { c.Close() },
		"reset":           func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() },
		"half closed":     func(c net.Conn) { c.(*net.TCPConn).CloseWrite() },
		"said something":  func(c net.Conn) { io.WriteString(c, "HTTP/1.1 500 Unasked\r\nContent-Length: 0\r\n\r\n") },
		"a second answer": nil,
		"half an answer":  nil,
	} {
		var mu sync.Mutex
		var conns []net.Conn
		p := listen(t, func(_ int, c net.Conn) bool {
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			text := ok + "Content-Length: 0\r\n\r\n"
			switch name {
			case "half an answer": // as much of it as is kept
				text = ok + "Content-Length: 70000\r\n\r\n" + strings.Repeat("z", maxKeptBody+1)
			case "a second answer":
				text += "HTTP/1.1 500 Unasked\r\nContent-Length: 0\r\n\r\n"
			}
			io.WriteString(c, text)
			return true
		})
		c, claim := courier(t), claimFor(p.url())
		if v := attempt(t, c, claim); v.Ruling != event.Success {
			t.Fatalf("%s: %+v", name, v)
		}
		if after != nil {
			mu.Lock()
			after(conns[0])
			mu.Unlock()
			awaitEvent(t, c, claim)
		}
		if v := attempt(t, c, claim); v.Ruling != event.Success || v.Evidence.Timings.Reused {
			t.Errorf("%s: %+v, reused: %v", name, v, v.Evidence.Timings.Reused)
		}
		if p.requests() != 2 {
			t.Errorf("%s: %d requests for 2 attempts", name, p.requests())
		}
	}
}

// awaitEvent returns once something has come in on the idle connection to a claim's target.
func awaitEvent(t *testing.T, c *Courier, claim *event.Claim) {
	t.Helper()
	req, _, err := c.request(t.Context(), claim, noon)
	if err != nil {
		t.Fatal(err)
	}
	clear := &c.wire.clear
	clear.mu.Lock()
	idle := clear.idle[dialAddress(req.URL)]
	clear.mu.Unlock()
	if len(idle) != 1 {
		t.Fatalf("%d idle connections", len(idle))
	}
	raw := idle[0].raw
	raw.Read(func(fd uintptr) bool { return !idle[0].silentAt(fd) })
}

// Attempts at one time have a connection each, and those that follow use them again.
func TestConnectionsAreUsedAgainAfterManyAtOnce(t *testing.T) {
	t.Parallel()
	const many = 20
	var here sync.WaitGroup
	here.Add(many)
	p := listen(t, func(n int, c net.Conn) bool {
		if n <= many {
			here.Done()
			here.Wait()
		}
		io.WriteString(c, ok+"Content-Length: 2\r\n\r\nok")
		return true
	})
	c, claim := courier(t), claimFor(p.url())
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			if v := attempt(t, c, claim); v.Ruling != event.Success || v.Evidence.Timings.Reused {
				t.Errorf("got %+v", v)
			}
		})
	}
	all.Wait()
	for range 2 * many {
		if v := attempt(t, c, claim); v.Ruling != event.Success || !v.Evidence.Timings.Reused {
			t.Errorf("got %+v", v)
		}
	}
	clear := &c.wire.clear
	clear.mu.Lock()
	for address, idle := range clear.idle {
		if len(idle) != many {
			t.Errorf("%d connections idle to %s", len(idle), address)
		}
	}
	// Those that were idle for too long go, the oldest first, and no other.
	for _, idle := range clear.idle {
		for _, old := range idle[:many/2] {
			old.since = time.Now().Add(-idleTimeout - time.Second)
		}
	}
	clear.mu.Unlock()
	clear.tidyUp()
	clear.mu.Lock()
	defer clear.mu.Unlock()
	for _, idle := range clear.idle {
		if len(idle) != many/2 || clear.tidy == nil {
			t.Errorf("%d connections idle, and somebody comes again: %v", len(idle), clear.tidy != nil)
		}
	}
}

// Nothing of one answer is taken for the next one's, however its body is given.
func TestAnswersOnOneConnectionAreKeptApart(t *testing.T) {
	t.Parallel()
	bodies := []string{"Content-Length: 5\r\n\r\nfirst", "Transfer-Encoding: chunked\r\n\r\n6\r\nsecond\r\n0\r\n\r\n", "Content-Length: 0\r\n\r\n",
		"Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5\r\nfifth\r\n0\r\nX: 1\r\n\r\n", "Content-Length: 3\r\n\r\nend"}
	p := listen(t, func(n int, c net.Conn) bool {
		io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+ok+bodies[n-1])
		return true
	})
	c, claim := courier(t), claimFor(p.url())
	for i, want := range []string{"first", "second", "", "fifth", "end"} {
		v := attempt(t, c, claim)
		if v.Ruling != event.Success || v.Evidence.Response.Body != want || v.Evidence.Timings.Reused != (i > 0) {
			t.Errorf("answer %d: %+v, %+v", i+1, v, v.Evidence)
		}
	}
}

// What is said in the request is what net/http says: the peer of a name is asked by it.
func TestARequestWithoutTLSNamesItsHost(t *testing.T) {
	t.Parallel()
	heads := make(chan string, 1)
	l := accept(t, func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		heads <- fmt.Sprint(req.Method, " ", req.RequestURI, " ", req.Proto, " ", req.Host, " ", req.ContentLength, " ", req.Header.Get("Connection"))
		io.WriteString(c, ok+"Content-Length: 0\r\n\r\n")
	})
	port := l.Addr().(*net.TCPAddr).Port
	claim := claimFor(fmt.Sprintf("http://user:pass@localhost:%d/a%%2Fb?c=d#e", port), func(r *event.Receiver) { r.Format = event.FormatRaw })
	claim.Format, claim.Event.Data = event.FormatRaw, []byte(`{}`)
	if v := attempt(t, courier(t), claim); v.Ruling != event.Success {
		t.Fatal(v)
	}
	if got, want := <-heads, fmt.Sprintf("POST /a%%2Fb?c=d HTTP/1.1 localhost:%d 2 ", port); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
