package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// guest is one connection to an animal, and reads what is asked on it.
type guest struct {
	net.Conn
	in *bufio.Reader
	k  *keeper
}

// hear reads a request whole and counts it; it is false where none comes.
func (g *guest) hear() bool {
	req, err := http.ReadRequest(g.in)
	if err != nil {
		return false
	}
	g.k.count(&g.k.requests)
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// glance reads the head of a request, counts it, and leaves its body where it is.
func (g *guest) glance() bool {
	_, err := http.ReadRequest(bufio.NewReaderSize(g.Conn, 16))
	if err == nil {
		g.k.count(&g.k.requests)
	}
	return err == nil
}

// reset closes the connection with a RST.
func (g *guest) reset() {
	g.Conn.(*net.TCPConn).SetLinger(0)
	g.Close()
}

// accept hands each connection to a script and closes it afterwards. It gives the address.
func (k *keeper) accept(script func(g *guest)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		k.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			k.count(&k.conns)
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			c.SetDeadline(time.Now().Add(20 * time.Second))
			conns.Go(func() { defer c.Close(); script(&guest{c, bufio.NewReader(c), k}) })
		}
	})
	k.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		conns.Wait()
	})
	return l.Addr().String()
}

// tcp is where an animal lives that does what it does on bare connections.
func tcp(script func(g *guest)) func(*keeper) string {
	return func(k *keeper) string { return "http://" + k.accept(script) + "/hook?key=hush" }
}

// says answers each request with the same bytes and hangs up.
func says(text string) func(*keeper) string {
	return tcp(func(g *guest) {
		if g.hear() {
			io.WriteString(g, text)
		}
	})
}

// keeps answers each request with the same bytes and waits for the next.
func keeps(text string) func(*keeper) string {
	return tcp(func(g *guest) {
		for g.hear() {
			io.WriteString(g, text)
		}
	})
}

// hangs says head, and then nothing until the other side hangs up.
func hangs(head string) func(*keeper) string {
	return tcp(func(g *guest) {
		if g.hear() {
			io.WriteString(g, head)
			io.Copy(io.Discard, g)
		}
	})
}

// floods says head, and then unit without end.
func floods(head, unit string) func(*keeper) string {
	unit = strings.Repeat(unit, 1+(1<<14)/len(unit))
	return tcp(func(g *guest) {
		if !g.hear() {
			return
		}
		io.WriteString(g, head)
		for {
			if _, err := io.WriteString(g, unit); err != nil {
				return
			}
		}
	})
}

// drips says head, and then unit again and again with pauses.
func drips(head, unit string) func(*keeper) string {
	return tcp(func(g *guest) {
		if !g.hear() {
			return
		}
		io.WriteString(g, head)
		for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
			if _, err := io.WriteString(g, unit); err != nil {
				return
			}
		}
	})
}

// resets says head and cuts the connection with a RST.
func resets(head string) func(*keeper) string {
	return tcp(func(g *guest) {
		if g.hear() {
			io.WriteString(g, head)
			g.reset()
		}
	})
}

// nowhere is where nobody listens: a port that was free a moment ago.
func nowhere(k *keeper) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		k.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String() + "/hook?key=hush"
}

// away is a URL at which no peer is needed.
func away(url string) func(*keeper) string { return func(*keeper) string { return url } }

// redirects sends to another address of the same peer, and back on the same connection.
func redirects(status int) func(*keeper) string {
	return keeps(fmt.Sprintf("HTTP/1.1 %d Elsewhere\r\nLocation: /other?token=hush\r\nContent-Length: 0\r\n\r\n", status))
}

// status answers with a status of three digits, whatever they are.
func status(code string) func(*keeper) string {
	return says("HTTP/1.1 " + code + " What\r\nContent-Length: 0\r\n\r\n")
}

// bomb is 10 MiB of zeros, squeezed to a few KiB.
func bomb() string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(make([]byte, 10<<20))
	w.Close()
	return b.String()
}

const fine = "HTTP/1.1 200 OK\r\n"

// rude are those that speak HTTP/1 over bare TCP, or should.
func rude() []animal {
	squeezed := bomb()
	return []animal{
		// What is a success, however odd.
		{"empty 200", keeps(fine + "Content-Length: 0\r\n\r\n"), "", 200, nil, 1},
		{"204", keeps("HTTP/1.1 204 No Content\r\n\r\n"), "", 204, nil, 1},
		{"204 with a body", says("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"), "", 204, []string{"response.body", ""}, 1},
		{"205 with a body", says("HTTP/1.1 205 Reset Content\r\nContent-Length: 5\r\n\r\nhello"), "", 205, nil, 1},
		{"299", status("299"), "", 299, nil, 1},
		{"HTTP/1.0", says("HTTP/1.0 200 OK\r\n\r\nhi"), "", 200, []string{"response.body", "hi"}, 1},
		{"no length, then a close", says(fine + "\r\nhello"), "", 200, []string{"response.body", "hello"}, 1},
		{"no reason", says("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), "", 200, nil, 1},
		{"bare line feeds", says("HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"), "", 200, []string{"response.body", "hi"}, 1},
		{"after 100 Continue", says("HTTP/1.1 100 Continue\r\n\r\n" + fine + "Content-Length: 0\r\n\r\n"), "", 200, nil, 1},
		{"after early hints", says("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + fine + "Content-Length: 0\r\n\r\n"), "", 200, nil, 1},
		{"two answers", says(fine + "Content-Length: 0\r\n\r\nHTTP/1.1 500 Oops\r\n\r\n"), "", 200, nil, 1},
		{"trailers", says(fine + "Transfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n2\r\nhi\r\n0\r\nX-A: b\r\n\r\n"), "", 200, []string{"response.body", "hi"}, 1},
		{"body cut short", says(fine + "Content-Length: 100\r\n\r\nshort"), "", 200, []string{"response.body", "short"}, 1},
		{"body, then a reset", resets(fine + "Content-Length: 100\r\n\r\nshort"), "", 200, nil, 1},
		{"body longer than its length", says(fine + "Content-Length: 2\r\n\r\nhi there"), "", 200, []string{"response.body", "hi"}, 1},
		{"body that never comes", hangs(fine + "Content-Length: 9\r\n\r\n"), "", 200, nil, 1},
		{"body that drips", drips(fine+"Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"), "", 200, nil, 1},
		{"body without end", floods(fine+"\r\n", "z"), "", 200, []string{"response.body", strings.Repeat("z", 4096), "response.body_cut", "true"}, 1},
		{"chunks without end", floods(fine+"Transfer-Encoding: chunked\r\n\r\n", "1\r\nz\r\n"), "", 200, []string{"response.body_cut", "true"}, 1},
		{"trailers without end", floods(fine+"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n", "X-A: b\r\n"), "", 200, []string{"response.body", "hi"}, 1},
		{"bad chunk", says(fine + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "", 200, nil, 1},
		{"chunk as long as can be", says(fine + "Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\nx"), "", 200, []string{"response.body", "x"}, 1},
		{"chunk longer than can be", says(fine + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx"), "", 200, nil, 1},
		{"length and chunks", says(fine + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"), "", 200, []string{"response.body", "hi"}, 1},
		{"NUL and no UTF-8", says(fine + "Content-Length: 3\r\n\r\n\x00\xff\xfe"), "", 200, []string{"response.body", "AP/+", "response.body_base64", "true"}, 1},
		{"NUL in text", says(fine + "Content-Length: 3\r\n\r\na\x00b"), "", 200, []string{"response.body_base64", "true"}, 1},
		{"escapes and markup", says(fine + "Content-Type: text/html\r\n\r\n<b>\x1b[31m\u202e"), "", 200, []string{"response.body", "<b>\x1b[31m\u202e"}, 1},
		{"JSON that is none", says(fine + "Content-Type: application/json\r\n\r\n{\"a\":NaN, 1e999}"), "", 200, []string{"response.body", `{"a":NaN, 1e999}`}, 1},
		{"gzip stays as it came", says(fine + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"), "", 200, []string{"response.body", "H4sI", "response.body_base64", "true"}, 1},
		{"gzip bomb", says(fine + "Content-Encoding: gzip\r\n\r\n" + squeezed), "", 200, []string{"response.body", "H4sI*", "response.body_cut", "true"}, 1},
		{"header without UTF-8", says(fine + "Server: a\xff\x80b\r\nContent-Length: 0\r\n\r\n"), "", 200, []string{"response.headers.server", "a\ufffdb"}, 1},
		{"headers of 40 KiB", says(fine + "X-A: " + strings.Repeat("a", 40<<10) + "\r\nContent-Length: 0\r\n\r\n"), "", 200, nil, 1},
		{"content type of 30 KiB", says(fine + "Content-Type: " + strings.Repeat("a", 30<<10) + "\r\nContent-Length: 0\r\n\r\n"), "", 200, nil, 1},
		{"cookies", says(fine + "Set-Cookie: a=hush\r\nContent-Length: 0\r\n\r\n"), "", 200, []string{"response.headers.set-cookie", ""}, 1},
		{"upgrade that was not asked for", says(fine + "Upgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n"), "", 200, nil, 1},

		// Statuses.
		{"300", redirects(300), "http_3xx", 300, nil, 1},
		{"301", redirects(301), "http_3xx", 301, []string{"response.headers.location", "/other"}, 1},
		{"302", redirects(302), "http_3xx", 302, nil, 1},
		{"303", redirects(303), "http_3xx", 303, nil, 1},
		{"304", redirects(304), "http_3xx", 304, nil, 1},
		{"305", redirects(305), "http_3xx", 305, nil, 1},
		{"306", redirects(306), "http_3xx", 306, nil, 1},
		{"307", redirects(307), "http_3xx", 307, nil, 1},
		{"308", redirects(308), "http_3xx", 308, nil, 1},
		{"redirect to no address", says("HTTP/1.1 302 Found\r\nLocation: http://[bad?token=hush\r\nContent-Length: 0\r\n\r\n"), "http_3xx", 302, nil, 1},
		{"401", says("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"), "http_4xx", 401, nil, 1},
		{"407", says("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"), "http_4xx", 407, nil, 1},
		{"408, as idle servers say", says("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"), "http_4xx", 408, nil, 1},
		{"410", status("410"), "permanent", 410, nil, 1},
		{"418", status("418"), "http_4xx", 418, nil, 1},
		{"421", status("421"), "http_4xx", 421, nil, 1},
		{"425 without a time", status("425"), "http_4xx", 425, nil, 1},
		{"429 with no readable time", says("HTTP/1.1 429 Wait\r\nRetry-After: -5\r\nContent-Length: 0\r\n\r\n"), "http_4xx", 429, nil, 1},
		{"429 with a time without end", says("HTTP/1.1 429 Wait\r\nRetry-After: " + strings.Repeat("9", 40) + "\r\nContent-Length: 0\r\n\r\n"), "retry_after", 429, nil, 1},
		{"499", status("499"), "http_4xx", 499, nil, 1},
		{"500", says("HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno"), "http_5xx", 500, []string{"response.body", "no"}, 1},
		{"500 without end", floods("HTTP/1.1 500 Oops\r\n\r\n", "n"), "http_5xx", 500, []string{"response.body_cut", "true"}, 1},
		{"503 that never ends", hangs("HTTP/1.1 503 Oops\r\nContent-Length: 10\r\n\r\n"), "http_5xx", 503, nil, 1},
		{"599", status("599"), "http_5xx", 599, nil, 1},
		{"000", status("000"), "protocol", 0, nil, 1},
		{"099", status("099"), "protocol", 99, nil, 1},
		{"600", status("600"), "protocol", 600, nil, 1},
		{"999", status("999"), "protocol", 999, nil, 1},
		{"101", says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "protocol", 101, nil, 1},
		{"101, then silence", hangs("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "protocol", 101, nil, 1},
		{"101, then a flood", floods("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "x"), "protocol", 101, nil, 1},

		// What is no HTTP.
		{"HTTP/0.9", says("<html>hello</html>"), "protocol", 0, nil, 1},
		{"HTTP/2 in the clear", says("\x00\x00\x00\x04\x00\x00\x00\x00\x00"), "protocol", 0, nil, 1},
		{"HTTP/3.0", says("HTTP/3.0 200 OK\r\nContent-Length: 0\r\n\r\n"), "", 200, nil, 1},
		{"HTTP/x", says("HTTP/x 200 OK\r\nContent-Length: 0\r\n\r\n"), "protocol", 0, nil, 1},
		{"SSH", says("SSH-2.0-OpenSSH_9.6\r\n"), "protocol", 0, nil, 1},
		{"mail", says("220 mail.example.com ESMTP\r\n"), "protocol", 0, nil, 1},
		{"noise", says(strings.Repeat("\xc3\xa9\x00\xff", 2000) + "\r\n\r\n"), "protocol", 0, nil, 1},
		{"a line without end", floods("", "z"), "protocol", 0, nil, 1},
		{"status abc", says("HTTP/1.1 abc\r\n\r\n"), "protocol", 0, nil, 1},
		{"status of two digits", status("20"), "protocol", 0, nil, 1},
		{"status of four digits", status("2000"), "protocol", 0, nil, 1},
		{"negative status", status("-20"), "protocol", 0, nil, 1},
		{"header without a colon", says(fine + "bad\x00\xff\r\n\r\n"), "protocol", 0, nil, 1},
		{"two lengths", says(fine + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), "protocol", 0, nil, 1},
		{"length that is none", says(fine + "Content-Length: many\r\n\r\nxx"), "protocol", 0, nil, 1},
		{"negative length", says(fine + "Content-Length: -1\r\n\r\nxx"), "protocol", 0, nil, 1},
		{"length beyond 64 bits", says(fine + "Content-Length: 99999999999999999999\r\n\r\nxx"), "protocol", 0, nil, 1},
		{"encoding nobody knows", says(fine + "Transfer-Encoding: squeezed\r\n\r\nxx"), "protocol", 0, nil, 1},
		{"headers of 80 KiB", says(fine + "X-A: " + strings.Repeat("a", 80<<10) + "\r\nContent-Length: 0\r\n\r\n"), "protocol", 0, nil, 1},
		{"headers of 10 MiB", says(fine + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 10<<10) + "\r\n"), "protocol", 0, nil, 1},
		{"headers without end", floods(fine, "X-A: b\r\n"), "protocol", 0, nil, 1},
		{"103 without end", floods("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), "protocol", 0, nil, 1},
		{"100 without end", floods("", "HTTP/1.1 100 Continue\r\n\r\n"), "protocol", 0, nil, 1},

		// Who breaks off, and who never begins.
		{"nobody listens", nowhere, "connect", 0, nil, 0},
		{"no such name", away("http://nobody.invalid/hook?key=hush"), "dns", 0, nil, 0},
		{"reset before reading", tcp(func(g *guest) { g.reset() }), "connect", 0, nil, 0},
		{"hang-up before reading", tcp(func(*guest) {}), "connect", 0, nil, 0},
		{"reset amid the request", tcp(func(g *guest) { g.glance(); g.reset() }), "connect", 0, nil, 1},
		{"hang-up after reading", says(""), "connect", 0, nil, 1},
		{"reset after reading", resets(""), "connect", 0, nil, 1},
		{"half a status line", says("HTTP/1.1 200"), "connect", 0, nil, 1},
		{"reset amid the headers", resets(fine + "X-A: b\r\n"), "connect", 0, nil, 1},
		{"hang-up amid the headers", says(fine + "X-A: b\r\n"), "connect", 0, nil, 1},
		{"hang-up after 100 Continue", says("HTTP/1.1 100 Continue\r\n\r\n"), "connect", 0, nil, 1},
		{"silence without reading", tcp(func(g *guest) { <-g.k.Context().Done() }), "timeout", 0, nil, 0},
		{"silence", hangs(""), "timeout", 0, nil, 1},
		{"silence amid the headers", hangs(fine + "X-A: b\r\n"), "timeout", 0, nil, 1},
		{"silence after early hints", hangs("HTTP/1.1 103 Early Hints\r\n\r\n"), "timeout", 0, nil, 1},
		{"status line that drips", drips("HTTP/1.1 ", "2"), "timeout", 0, nil, 1},
		{"headers that drip", drips(fine, "X-A: b\r\n"), "timeout", 0, nil, 1},
		{"hints that drip", drips("", "HTTP/1.1 103 Early Hints\r\n\r\n"), "timeout", 0, nil, 1},
		{"413 before the body is read", tcp(func(g *guest) {
			if g.glance() {
				io.WriteString(g, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				g.Conn.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, g)
			}
		}), "http_4xx", 413, nil, 1},
		{"200 before the request is read", tcp(func(g *guest) {
			io.WriteString(g, fine+"Content-Length: 0\r\n\r\n")
			io.Copy(io.Discard, g)
		}), "", 200, nil, 0},
	}
}
