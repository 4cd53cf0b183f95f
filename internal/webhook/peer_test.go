package webhook

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// peer is a scripted receiver that speaks TCP: it reads each request whole, keeps it,
// and answers with whatever bytes the script says.
type peer struct {
	net.Listener
	answer func(n int, c net.Conn) (keep bool)
	mu     sync.Mutex
	got    []string
}

func listen(t testing.TB, answer func(n int, c net.Conn) bool) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{Listener: l, answer: answer}
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
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return p
}

func (p *peer) serve(c net.Conn) {
	c.SetDeadline(time.Now().Add(20 * time.Second))
	for in := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		p.mu.Lock()
		p.got = append(p.got, req.Method+" "+req.URL.Path+"\n"+string(body))
		n := len(p.got)
		p.mu.Unlock()
		if !p.answer(n, c) {
			return
		}
	}
}

func (p *peer) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.got)
}

func (p *peer) url() string { return "http://" + p.Addr().String() + "/hook" }

// says answers every request with the same bytes, and hangs up.
func says(text string) func(int, net.Conn) bool {
	return func(_ int, c net.Conn) bool { io.WriteString(c, text); return false }
}

func courier(t testing.TB) *Courier {
	t.Helper()
	private, err := ParseAllowed("true")
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{Version: "test", Policy: NewPolicy(private...)})
	t.Cleanup(c.CloseIdle)
	return c
}

func claimFor(url string, change ...func(*event.Receiver)) *event.Claim {
	r := plainReceiver()
	for _, f := range change {
		f(r)
	}
	id := event.NewID(noon)
	return &event.Claim{
		Fence: event.Fence{Delivery: id}, MaxAttempts: 20, Sending: 1, Format: r.Format,
		Event: event.Event{ID: event.NewID(noon), Type: "order.placed", Data: []byte(`{ "b":1, "a": 123456789012345678901234567890.50 }`), RecordedAt: noon},
		To:    &event.Target{URL: url, Receiver: r, Secrets: []event.Secret{make(event.Secret, 32)}},
	}
}

func attempt(t testing.TB, c *Courier, claim *event.Claim) event.Verdict {
	t.Helper()
	v := c.Attempt(context.Background(), claim)
	if v.StartedAt.IsZero() || v.HTTPStatus < 0 || v.HTTPStatus > 32767 {
		t.Errorf("a verdict that cannot be recorded: %+v", v)
	}
	return v
}

const ok = "HTTP/1.1 200 OK\r\n"

// P10: one row a peer, with the class it comes to. None may take longer than its
// timeout, or more than is kept of it.
func TestTheZooOfReceivers(t *testing.T) {
	flood := func(head, unit string) func(int, net.Conn) bool {
		return func(_ int, c net.Conn) bool {
			io.WriteString(c, head)
			for {
				if _, err := io.WriteString(c, unit); err != nil {
					return false
				}
			}
		}
	}
	for name, c := range map[string]struct {
		answer func(int, net.Conn) bool
		ruling event.Ruling
		class  event.Class
		check  func(event.Verdict) bool
	}{
		"empty 200":    {says(ok + "Content-Length: 0\r\n\r\n"), event.Success, "", nil},
		"204":          {says("HTTP/1.1 204 No Content\r\n\r\n"), event.Success, "", nil},
		"broken body":  {says(ok + "Content-Length: 100\r\n\r\nshort"), event.Success, "", func(v event.Verdict) bool { return v.Evidence.Response.Body == "short" }},
		"bad chunks":   {says(ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), event.Success, "", nil},
		"endless body": {flood(ok+"\r\n", strings.Repeat("z", 1<<16)), event.Success, "", func(v event.Verdict) bool { return v.Evidence.Response.Cut && len(v.Evidence.Response.Body) == 4096 }},
		"body that never comes": {func(_ int, c net.Conn) bool {
			io.WriteString(c, ok+"Content-Length: 9\r\n\r\n")
			io.Copy(io.Discard, c)
			return false
		}, event.Success, "", nil},
		"NUL and no UTF-8":     {says(ok + "Content-Length: 3\r\n\r\n\x00\xff\xfe"), event.Success, "", func(v event.Verdict) bool { return v.Evidence.Response.Base64 && v.Evidence.Response.Body == "AP/+" }},
		"gzip is not inflated": {says(ok + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"), event.Success, "", func(v event.Verdict) bool { return v.Evidence.Response.Base64 }},
		"header bytes":         {says(ok + "Server: a\xff\x80b\r\nContent-Length: 0\r\n\r\n"), event.Success, "", nil},
		"redirect":             {says("HTTP/1.1 307 Temporary Redirect\r\nLocation: /other?token=x\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassHTTP3xx, func(v event.Verdict) bool { return v.Evidence.Response.Headers["location"] == "/other" }},
		"500":                  {says("HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno"), event.Failure, event.ClassHTTP5xx, func(v event.Verdict) bool { return v.Evidence.Response.Body == "no" }},
		"status 999":           {says("HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassProtocol, func(v event.Verdict) bool { return v.HTTPStatus == 999 }},
		"status 000":           {says("HTTP/1.1 000 What\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"switching protocols":  {says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"switched, then silence": {func(_ int, c net.Conn) bool {
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
			io.Copy(io.Discard, c)
			return false
		}, event.Failure, event.ClassProtocol, nil},
		"no HTTP":         {says("SSH-2.0-OpenSSH_9.6\r\n"), event.Failure, event.ClassProtocol, nil},
		"bad status line": {says("HTTP/1.1 abc\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"hang-up":         {func(int, net.Conn) bool { return false }, event.Failure, event.ClassConnect, nil},
		"reset":           {func(_ int, c net.Conn) bool { c.(*net.TCPConn).SetLinger(0); return false }, event.Failure, event.ClassConnect, nil},
		"silence":         {func(_ int, c net.Conn) bool { io.Copy(io.Discard, c); return false }, event.Failure, event.ClassTimeout, nil},
		"header flood":    {flood(ok, "X-A: "+strings.Repeat("a", 1000)+"\r\n"), event.Failure, event.ClassProtocol, nil},
		"1xx flood":       {flood("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"drip": {func(_ int, c net.Conn) bool {
			for range 100 {
				if _, err := io.WriteString(c, "H"); err != nil {
					return false
				}
				<-time.After(50 * time.Millisecond)
			}
			return false
		}, event.Failure, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := listen(t, c.answer)
			began := time.Now()
			v := attempt(t, courier(t), claimFor(p.url(), func(r *event.Receiver) { r.Timeout = time.Second }))
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("took %v", took)
			}
			if v.Ruling != c.ruling || c.class != "" && v.Class != c.class || c.check != nil && !c.check(v) {
				t.Errorf("got %s %s: %s, %+v", v.Ruling, v.Class, v.Reason, v.Evidence)
			}
			if p.requests() != 1 {
				t.Errorf("%d requests on the wire, want 1", p.requests())
			}
		})
	}
}

// P6: net/http resends a request with a rewindable body on a kept-alive connection that
// turns out dead, and always where it carries an idempotency key.
func TestOneAttemptIsOneRequestOnADeadKeptAliveConnection(t *testing.T) {
	for name, headers := range map[string]map[string]string{"plain": nil, "with an idempotency key": {"X-Idempotency-Key": "1"}} {
		t.Run(name, func(t *testing.T) {
			p := listen(t, func(n int, c net.Conn) bool {
				if n == 1 {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					return true
				}
				return false // reads the request, and hangs up on it
			})
			c, claim := courier(t), claimFor(p.url(), func(r *event.Receiver) { r.Headers = headers })
			if v := attempt(t, c, claim); v.Ruling != event.Success {
				t.Fatal(v)
			}
			v := attempt(t, c, claim)
			if v.Ruling != event.Failure || v.Class != event.ClassConnect || !v.Evidence.Timings.Reused {
				t.Errorf("got %+v, reused: %v", v, v.Evidence.Timings.Reused)
			}
			if p.requests() != 2 {
				t.Errorf("%d requests for 2 attempts", p.requests())
			}
		})
	}
}

func TestNothingListening(t *testing.T) {
	p := listen(t, says(""))
	url := p.url()
	p.Close()
	if v := attempt(t, courier(t), claimFor(url)); v.Class != event.ClassConnect || !strings.Contains(v.Reason, "refused") {
		t.Errorf("got %+v", v)
	}
}

func TestWhatIsStoredButCannotBeSentIsDecode(t *testing.T) {
	c := courier(t)
	without := claimFor("http://127.0.0.1/")
	without.Event.Data = nil
	for name, claim := range map[string]*event.Claim{
		"url":    claimFor("http://[bad/"),
		"format": claimFor("http://127.0.0.1/", func(r *event.Receiver) { r.Format = "morse" }),
		"data":   without,
	} {
		if c.Check(claim) == nil {
			t.Errorf("%s: found fit to be sent", name)
		}
		if v := attempt(t, c, claim); v.Ruling != event.Permanent || v.Class != event.ClassDecode {
			t.Errorf("%s: got %+v", name, v)
		}
	}
}

// Only what is stored decides: big numbers, odd spacing and names given twice are fine.
func TestStoredDataIsCheckedToBeOneJSONValueAndNoMore(t *testing.T) {
	c := courier(t)
	for data, fit := range map[string]bool{
		`{"a":1,"a":2}`: true, ` [1e131071, "\u0000"] `: true, `null`: true, `""`: true,
		`{"a":`: false, `{} {}`: false, `x`: false, ` `: false,
	} {
		claim := claimFor("http://127.0.0.1/")
		claim.Event.Data = []byte(data)
		if err := c.Check(claim); (err == nil) != fit {
			t.Errorf("%s: got %v", data, err)
		}
	}
}

// T115: the row's format decides, whatever was declared since.
func TestAChangedFormatLeavesDeliveriesUnderWayAsTheyWere(t *testing.T) {
	c := courier(t)
	claim := claimFor("http://127.0.0.1/", func(r *event.Receiver) { r.Format = event.FormatRaw })
	claim.Format = event.FormatStandard
	req, err := c.request(t.Context(), claim, noon)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(req.Body)
	if !strings.HasPrefix(string(body), `{"type":"order.placed",`) {
		t.Errorf("sent %s", body)
	}
}

func BenchmarkAttempt(b *testing.B) {
	p := listen(b, func(_ int, c net.Conn) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return true
	})
	c, claim := courier(b), claimFor(p.url())
	b.ReportAllocs()
	for b.Loop() {
		if v := c.Attempt(context.Background(), claim); v.Ruling != event.Success {
			b.Fatal(v)
		}
	}
	b.ReportMetric(float64(p.requests())/float64(b.N), "requests/op")
}
