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

// accept hands each connection to handle, whole, and closes it afterwards.
func accept(t testing.TB, handle func(net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(20 * time.Second))
			conns.Go(func() { defer c.Close(); handle(c) })
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return l
}

// byName is a courier to which every name is this machine, and the URL of a peer by a
// name, with a query that no reason may tell.
func byName(t *testing.T, p *peer) (*Courier, string) {
	t.Helper()
	asked := make(chan []string, 1)
	asked <- []string{"127.0.0.1"}
	close(asked)
	c := New(Options{Policy: NewPolicy(privatePrefixes...), DNS: resolver(t, asked)})
	t.Cleanup(c.CloseIdle)
	return c, strings.Replace(p.url(), "127.0.0.1", "shop.example.com", 1) + "?key=hush"
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
		To:    &event.Target{URL: url, Receiver: r, Signers: signers(make(event.Secret, 32))},
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

// P6: net/http resends a request with a rewindable body on a kept-alive connection that
// turns out dead, and always where it carries an idempotency key.
func TestOneAttemptIsOneRequestOnADeadKeptAliveConnection(t *testing.T) {
	for name, headers := range map[string]map[string]string{
		"plain": nil, "with an idempotency key": {"Idempotency-Key": "1"}, "with its older name": {"X-Idempotency-Key": "1"},
	} {
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

// An answer of a page or so costs no connection; one that is longer is not worth it.
func TestAConnectionIsUsedAgainAfterAnAnswerOfBoundedLength(t *testing.T) {
	for size, reused := range map[int]bool{0: true, 4096: true, 4097: true, 20_000: true, 64 << 10: true, 64<<10 + 1: false, 1 << 20: false} {
		p := listen(t, func(_ int, c net.Conn) bool {
			fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", ok, size, strings.Repeat("z", size))
			return true
		})
		c, claim := courier(t), claimFor(p.url())
		attempt(t, c, claim)
		v := attempt(t, c, claim)
		if got := v.Evidence.Timings.Reused; got != reused {
			t.Errorf("after %d bytes: reused is %v, want %v", size, got, reused)
		}
		if r := v.Evidence.Response; len(r.Body) != min(size, 4096) || r.Cut != (size > 4096) {
			t.Errorf("of %d bytes %d are kept, cut: %v", size, len(r.Body), r.Cut)
		}
	}
}

// P10: the body is evidence, and evidence may not hold up the record of a verdict that
// is known, however long the receiver's timeout.
func TestABodyIsWaitedForAMomentOnly(t *testing.T) {
	p := listen(t, hangs(ok+"Content-Length: 9\r\n\r\nhalf"))
	began := time.Now()
	v := attempt(t, courier(t), claimFor(p.url(), func(r *event.Receiver) { r.Timeout = time.Minute }))
	if took := time.Since(began); v.Ruling != event.Success || v.Evidence.Response.Body != "half" || took > 10*bodyPatience {
		t.Errorf("got %+v after %v", v, took)
	}
}

func TestNothingListening(t *testing.T) {
	p := listen(t, says(""))
	p.Close()
	c, url := byName(t, p)
	if v := attempt(t, c, claimFor(url)); v.Class != event.ClassConnect || v.Reason != "nothing listens there: connection refused" {
		t.Errorf("got %+v", v)
	}
}

// P9: whoever cuts an attempt sees that by its own context, and records nothing.
func TestAnAttemptThatIsCutSaysSoAndEndsAtOnce(t *testing.T) {
	ctx, cut := context.WithCancel(context.Background())
	p := listen(t, func(_ int, c net.Conn) bool { cut(); io.Copy(io.Discard, c); return false })
	v := courier(t).Attempt(ctx, claimFor(p.url()))
	if v.Ruling != event.Failure || v.Class != event.ClassConnect || !strings.Contains(v.Reason, "on our side") {
		t.Errorf("got %+v", v)
	}
}

func TestWhatIsStoredButCannotBeSentIsDecode(t *testing.T) {
	c := courier(t)
	without := claimFor("http://127.0.0.1/")
	without.Event.Data = nil
	for name, claim := range map[string]*event.Claim{
		"url":    claimFor("http://[bad/?key=hush"),
		"bytes":  claimFor("http://127.0.0.1/?key=hush\x01"),
		"scheme": claimFor("ftp://127.0.0.1/?key=hush"),
		"host":   claimFor("http:///?key=hush"),
		"port":   claimFor("http://:80/?key=hush"),
		"format": claimFor("http://127.0.0.1/", func(r *event.Receiver) { r.Format = "morse" }),
		"data":   without,
	} {
		if c.Check(claim) == nil {
			t.Errorf("%s: found fit to be sent", name)
		}
		if v := attempt(t, c, claim); v.Ruling != event.Permanent || v.Class != event.ClassDecode || strings.Contains(v.Reason, "hush") {
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
	_, body, err := c.request(t.Context(), claim, noon)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(body), `{"type":"order.placed",`) {
		t.Errorf("sent %s", body)
	}
}

// attemptBudget is how many allocations an attempt may make, those of the peer among them.
const attemptBudget = 90

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
	if n := testing.AllocsPerRun(200, func() { c.Attempt(context.Background(), claim) }); n > attemptBudget {
		b.Errorf("an attempt makes %v allocations; its budget is %d", n, attemptBudget)
	}
}
