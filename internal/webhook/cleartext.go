package webhook

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// cleartext is HTTP/1.1 without TLS, as receivers beside the service speak it. net/http
// gives each connection two goroutines, and a request passes through both: that is as much
// work as all the rest of an attempt. Here whoever makes the attempt writes its request and
// reads its answer, one after the other; what is written and read is net/http's affair as
// elsewhere. A peer that answers before it has read a request to its end is why requests
// that may not fit into what a connection holds are not for it.
type cleartext struct {
	dial   func(context.Context, string, string) (net.Conn, error)
	direct bool // what it dials is the peer's own connection, and no tunnel of a proxy
	mu     sync.Mutex
	idle   map[string][]*clearConn // by address, the one used last at the end
	tidy   *time.Timer             // closes those that were idle for too long; nil where there are none
}

// maxClear bounds the body of a request. A peer's connection holds more unread, by Linux's
// and everybody's defaults.
const maxClear = 32 << 10

// lastWords is how long an answer is waited for once a request could not be written: a peer
// that refuses it unread says so before it hangs up.
const lastWords = 50 * time.Millisecond

// suits reports whether a request may go this way. Names that are not ASCII are mapped by
// net/http.
func (t *cleartext) suits(u *url.URL, body []byte) bool {
	return t.direct && u.Scheme == "http" && len(body) <= maxClear && !slices.ContainsFunc([]byte(u.Host), func(b byte) bool { return b >= 0x80 })
}

// send puts a request on the wire, at most once, and gives its answer up to the headers.
func (t *cleartext) send(req *http.Request, seen *sighting) (*http.Response, error) {
	c, err := t.conn(req.Context(), dialAddress(req.URL), seen)
	if err != nil {
		return nil, err
	}
	c.cut = context.AfterFunc(req.Context(), func() { c.SetDeadline(time.Unix(1, 0)) })
	resp, err := c.exchange(req, seen)
	if err != nil {
		c.cut()
		c.Close()
		return nil, err
	}
	resp.Body = &clearBody{ReadCloser: resp.Body, conn: c, of: t, keep: !resp.Close && resp.StatusCode >= 200}
	return resp, nil
}

// dialAddress is where a URL is dialled.
func dialAddress(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// conn is a connection to an address: one that is there and that the peer has not closed, or
// a new one.
func (t *cleartext) conn(ctx context.Context, address string, seen *sighting) (*clearConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for c := t.take(address); c != nil; c = t.take(address) {
		if c.silent() {
			seen.reuse()
			return c, nil
		}
		c.Close()
	}
	conn, err := t.dial(httptrace.WithClientTrace(ctx, seen.trace(ctx)), "tcp", address)
	if err != nil {
		return nil, err
	}
	return newClearConn(conn, address), nil
}

func (t *cleartext) take(address string) *clearConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.idle[address]
	if len(all) == 0 {
		return nil
	}
	c := all[len(all)-1]
	all[len(all)-1] = nil
	t.keep(address, all[:len(all)-1])
	return c
}

// keep requires mu.
func (t *cleartext) keep(address string, all []*clearConn) {
	if len(all) == 0 {
		delete(t.idle, address)
		return
	}
	t.idle[address] = all
}

// rest keeps a connection for the next request.
func (t *cleartext) rest(c *clearConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle[c.address]) >= idlePerHost {
		c.Close()
		return
	}
	c.since = time.Now()
	t.idle[c.address] = append(t.idle[c.address], c)
	if t.tidy == nil {
		t.tidy = time.AfterFunc(idleTimeout, t.tidyUp)
	}
}

// tidyUp closes what has been idle for too long, and comes again for what has not.
func (t *cleartext) tidyUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidy = nil
	t.drop(time.Now().Add(-idleTimeout))
	var first time.Time
	for _, all := range t.idle {
		if first.IsZero() || all[0].since.Before(first) {
			first = all[0].since
		}
	}
	if !first.IsZero() {
		t.tidy = time.AfterFunc(time.Until(first.Add(idleTimeout)), t.tidyUp)
	}
}

// drop closes what has been idle since a moment or longer. It requires mu.
func (t *cleartext) drop(since time.Time) {
	for address, all := range t.idle {
		n := 0
		for n < len(all) && !all[n].since.After(since) {
			all[n].Close()
			n++
		}
		t.keep(address, slices.Delete(all, 0, n))
	}
}

func (t *cleartext) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(time.Now())
	if t.tidy != nil {
		t.tidy.Stop()
		t.tidy = nil
	}
}

// clearConn is a connection with what it takes to use it.
type clearConn struct {
	net.Conn
	address string
	in      *bufio.Reader
	left    int64       // bytes that may yet be read of headers
	unsent  error       // why the request could not be written
	cut     func() bool // ends the watch over its request's context
	since   time.Time   // it is idle
	*peeker
}

func newClearConn(conn net.Conn, address string) *clearConn {
	c := &clearConn{Conn: conn, address: address, peeker: newPeeker(conn)}
	c.in = bufio.NewReader(io.Reader(c))
	return c
}

// Read bounds what is read of headers.
func (c *clearConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("server response headers exceeded %d bytes; aborted", maxResponseHeaders)
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// Write keeps why it fails: what goes wrong while a body is copied net/http takes for the
// body's fault, and wraps so that nothing of the cause is found in it but its text, addresses
// and all.
func (c *clearConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.unsent = err
	}
	return n, err
}

var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 8<<10) }}

// exchange writes a request and reads its answer.
func (c *clearConn) exchange(req *http.Request, seen *sighting) (*http.Response, error) {
	out := writers.Get().(*bufio.Writer)
	out.Reset(c)
	seen.leaves()
	failed := req.Write(out)
	if failed == nil {
		failed = out.Flush()
	}
	out.Reset(nil)
	writers.Put(out)
	if failed != nil {
		c.SetReadDeadline(time.Now().Add(lastWords))
	}
	resp, err := c.answer(req, seen)
	if failed != nil && err != nil {
		return nil, cmp.Or(c.unsent, failed)
	}
	return resp, err
}

// answer reads an answer up to its headers, past those that are none yet (1xx).
func (c *clearConn) answer(req *http.Request, seen *sighting) (*http.Response, error) {
	c.left = maxResponseHeaders
	if _, err := c.in.Peek(1); err != nil {
		return nil, err
	}
	seen.firstByte()
	for {
		resp, err := http.ReadResponse(c.in, req)
		if err != nil {
			return nil, err
		}
		if s := resp.StatusCode; s < 100 || s >= 200 || s == http.StatusSwitchingProtocols {
			c.left = 1 << 62
			return resp, nil
		}
	}
}

// clearBody is the body of an answer. Once it was read to its end and closed its connection
// is free for another request; closed before, the connection is as well.
type clearBody struct {
	io.ReadCloser
	conn  *clearConn
	of    *cleartext
	keep  bool
	whole atomic.Bool
	once  sync.Once
}

// here reports whether a body of a length is all in the buffer, so that no read of it waits.
// A length below zero is one that nobody knows.
func (b *clearBody) here(length int64) bool {
	return length >= 0 && length <= int64(b.conn.in.Buffered())
}

func (b *clearBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole.Store(true)
	}
	return n, err
}

// Close may be called beside a Read, which it ends.
func (b *clearBody) Close() error {
	b.once.Do(func() {
		uncut := b.conn.cut()
		if b.keep && uncut && b.whole.Load() && b.conn.in.Buffered() == 0 {
			b.of.rest(b.conn)
			return
		}
		b.conn.Close()
	})
	return nil
}
