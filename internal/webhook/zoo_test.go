package webhook

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

const ok = "HTTP/1.1 200 OK\r\n"

// floods says head, and then unit without end.
func floods(head, unit string) func(int, net.Conn) bool {
	return func(_ int, c net.Conn) bool {
		io.WriteString(c, head)
		for {
			if _, err := io.WriteString(c, unit); err != nil {
				return false
			}
		}
	}
}

// hangs says head, and then nothing until the other side hangs up.
func hangs(head string) func(int, net.Conn) bool {
	return func(_ int, c net.Conn) bool {
		io.WriteString(c, head)
		io.Copy(io.Discard, c)
		return false
	}
}

// drips says head, and then one byte at a time.
func drips(head string) func(int, net.Conn) bool {
	return func(_ int, c net.Conn) bool {
		io.WriteString(c, head)
		for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
			if _, err := io.WriteString(c, "H"); err != nil {
				return false
			}
		}
	}
}

func keeps(body string) func(event.Verdict) bool {
	return func(v event.Verdict) bool { return v.Evidence.Response.Body == body }
}

// P10: one row a peer, with the class it comes to. Only silence takes a receiver's whole
// timeout, no answer is kept beyond its bounds, and each has seen one request (P6). It is
// the same over net/http's transport, which carries what cleartext does not.
func TestTheZooOfReceivers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(int, net.Conn) bool
		ruling event.Ruling
		class  event.Class
		check  func(event.Verdict) bool
	}{
		"empty 200":               {says(ok + "Content-Length: 0\r\n\r\n"), event.Success, "", keeps("")},
		"204":                     {says("HTTP/1.1 204 No Content\r\n\r\n"), event.Success, "", nil},
		"HTTP/1.0":                {says("HTTP/1.0 200 OK\r\n\r\nhi"), event.Success, "", keeps("hi")},
		"after early hints":       {says("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n"), event.Success, "", nil},
		"broken body":             {says(ok + "Content-Length: 100\r\n\r\nshort"), event.Success, "", keeps("short")},
		"bad chunks":              {says(ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), event.Success, "", nil},
		"endless body":            {floods(ok+"\r\n", strings.Repeat("z", 1<<16)), event.Success, "", func(v event.Verdict) bool { return v.Evidence.Response.Cut && len(v.Evidence.Response.Body) == 4096 }},
		"body that never comes":   {hangs(ok + "Content-Length: 9\r\n\r\n"), event.Success, "", nil},
		"body that drips":         {drips(ok + "Transfer-Encoding: chunked\r\n\r\n9999\r\n"), event.Success, "", nil},
		"NUL and no UTF-8":        {says(ok + "Content-Length: 3\r\n\r\n\x00\xff\xfe"), event.Success, "", func(v event.Verdict) bool { return v.Evidence.Response.Base64 && v.Evidence.Response.Body == "AP/+" }},
		"gzip is not inflated":    {says(ok + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"), event.Success, "", func(v event.Verdict) bool { return v.Evidence.Response.Base64 && v.Evidence.Response.Body == "H4sI" }},
		"header bytes":            {says(ok + "Server: a\xff\x80b\r\nContent-Length: 0\r\n\r\n"), event.Success, "", func(v event.Verdict) bool { return v.Evidence.Response.Headers["server"] == "a\uFFFDb" }},
		"a second answer":         {says(ok + "Content-Length: 0\r\n\r\nHTTP/1.1 500 Oops\r\n\r\n"), event.Success, "", nil},
		"redirect":                {says("HTTP/1.1 307 Temporary Redirect\r\nLocation: /other?token=x\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassHTTP3xx, func(v event.Verdict) bool { return v.Evidence.Response.Headers["location"] == "/other" }},
		"redirect to no address":  {says("HTTP/1.1 302 Found\r\nLocation: http://[bad?token=x\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassHTTP3xx, nil},
		"see other":               {says("HTTP/1.1 303 See Other\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassHTTP3xx, nil},
		"wants authentication":    {says("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassHTTP4xx, nil},
		"408, as idle servers do": {says("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"), event.Failure, event.ClassHTTP4xx, nil},
		"500":                     {says("HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno"), event.Failure, event.ClassHTTP5xx, keeps("no")},
		"status 000":              {says("HTTP/1.1 000 What\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"status 099":              {says("HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassProtocol, func(v event.Verdict) bool { return v.Reason == "answered 099" }},
		"status 600":              {says("HTTP/1.1 600 What\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"status 999":              {says("HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassProtocol, func(v event.Verdict) bool { return v.HTTPStatus == 999 }},
		"switching protocols":     {says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"switching, then silence": {hangs("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"switching, then a flood": {floods("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "x"), event.Failure, event.ClassProtocol, nil},
		"no HTTP":                 {says("SSH-2.0-OpenSSH_9.6\r\n"), event.Failure, event.ClassProtocol, nil},
		"bytes":                   {says(strings.Repeat("é\x00\xff", 2000) + "\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"bad status line":         {says("HTTP/1.1 abc\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"bad header line":         {says(ok + "bad\x00\xff\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"two lengths":             {says(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), event.Failure, event.ClassProtocol, nil},
		"half a status line":      {says("HTTP/1.1 200"), event.Failure, event.ClassConnect, nil},
		"hang-up":                 {func(int, net.Conn) bool { return false }, event.Failure, event.ClassConnect, nil},
		"reset":                   {func(_ int, c net.Conn) bool { c.(*net.TCPConn).SetLinger(0); return false }, event.Failure, event.ClassConnect, nil},
		"silence":                 {hangs(""), event.Failure, event.ClassTimeout, func(v event.Verdict) bool { return v.Reason == "no answer within 1s" }},
		"drip":                    {drips(""), event.Failure, event.ClassTimeout, nil},
		"headers of 40 KiB":       {says(ok + "X-A: " + strings.Repeat("a", 40<<10) + "\r\nContent-Length: 0\r\n\r\n"), event.Success, "", nil},
		"headers of 80 KiB":       {says(ok + "X-A: " + strings.Repeat("a", 80<<10) + "\r\nContent-Length: 0\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
		"header flood":            {floods(ok, "X-A: "+strings.Repeat("a", 1000)+"\r\n"), event.Failure, event.ClassProtocol, nil},
		"1xx flood":               {floods("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), event.Failure, event.ClassProtocol, nil},
	} {
		for way, direct := range map[string]bool{"": true, ", over net/http": false} {
			t.Run(name+way, func(t *testing.T) {
				t.Parallel()
				p := listen(t, c.answer)
				courier, url := byName(t, p)
				courier.wire.clear.direct = direct
				timeout := 20 * time.Second
				if c.class == event.ClassTimeout {
					timeout = time.Second
				}
				began := time.Now()
				v := attempt(t, courier, claimFor(url, func(r *event.Receiver) { r.Timeout = timeout }))
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("took %v", took)
				}
				if v.Ruling != c.ruling || v.Class != c.class || c.check != nil && !c.check(v) {
					t.Errorf("got %s %s: %s, %+v", v.Ruling, v.Class, v.Reason, v.Evidence)
				}
				for _, secret := range []string{"127.0.0.1", "hush", "token"} {
					if strings.Contains(v.Reason, secret) {
						t.Errorf("the reason tells %s: %s", secret, v.Reason)
					}
				}
				if len(v.Reason) > maxReason {
					t.Errorf("a reason of %d bytes", len(v.Reason))
				}
				if p.requests() != 1 {
					t.Errorf("%d requests on the wire, want 1", p.requests())
				}
			})
		}
	}
}

// A receiver that refuses a body by its size answers before it has read it. Whether the
// answer or the reset is seen first is for the network to say; both are ordinary.
func TestAnAnswerBeforeTheBodyIsReadCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then    func(net.Conn)
		classes string
	}{
		"and then reads on": {func(c net.Conn) { c.(*net.TCPConn).CloseWrite(); io.Copy(io.Discard, c) }, "http_4xx"},
		"and then hangs up": {func(net.Conn) {}, "http_4xx connect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := accept(t, func(conn net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReaderSize(conn, 4096)); err != nil {
					return
				}
				io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				c.then(conn)
			})
			for range 20 {
				claim := claimFor("http://" + l.Addr().String() + "/")
				claim.Event.Data = []byte(`"` + strings.Repeat("a", event.MaxData-2) + `"`)
				if v := attempt(t, courier(t), claim); v.Ruling != event.Failure || !strings.Contains(c.classes, string(v.Class)) {
					t.Errorf("got %s %s: %s", v.Ruling, v.Class, v.Reason)
				}
			}
		})
	}
}
