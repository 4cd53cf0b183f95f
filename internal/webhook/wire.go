package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"

	"golang.org/x/net/http2"

	"github.com/eventsvc/eventsvc/internal/event"
)

// wire is what requests go out by: webhooks and on_failure alike.
type wire struct {
	new *http.Transport // HTTP/2 over TLS where the peer offers it, else HTTP/1.1
	old *http.Transport // HTTP/1.1 alone
	// clear is HTTP/1.1 without TLS, for most of what goes that way.
	clear cleartext
	// stale are the hosts that are spoken to by HTTP/1.1 although they offer HTTP/2.
	stale staleHosts
	only1 bool // HTTP/1.1 for all
}

func newWire(dial func(context.Context, string, string) (net.Conn, error), only1, direct bool) *wire {
	lines := newLines()
	transport := func(protocol2 bool) *http.Transport {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		t := &http.Transport{
			Proxy:                  nil, // it would be given names; see proxy
			DialContext:            dial,
			TLSHandshakeTimeout:    tlsTimeout,
			Protocols:              protocols,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxResponseHeaders,
			MaxIdleConns:           0,
			MaxIdleConnsPerHost:    idlePerHost,
			IdleConnTimeout:        idleTimeout,
		}
		if protocol2 {
			t.DialContext, t.HTTP2 = lines.dial(dial), http2Config()
			protocols.SetHTTP2(true)
			// The copy of this package that Go 1.26 has in net/http locks a connection twice for a
			// WINDOW_UPDATE that overflows a stream's window: one frame, and no attempt ends.
			//lint:ignore SA1019 for as long as that is so
			if err := http2.ConfigureTransport(t); err != nil {
				panic(err) // it is refused a transport that is configured already
			}
		} else {
			t.TLSClientConfig = &tls.Config{NextProtos: []string{"http/1.1"}}
		}
		return t
	}
	return &wire{new: transport(true), old: transport(false), only1: only1, clear: cleartext{dial: dial, direct: direct, idle: map[string][]*clearConn{}}}
}

// closeIdle closes connections that no request uses.
func (w *wire) closeIdle() {
	w.new.CloseIdleConnections()
	w.old.CloseIdleConnections()
	w.clear.closeIdle()
}

// send puts one request on the wire, at most, and gives its answer up to the headers. The
// transport alone does it, without a client around it: so there is nothing that could
// follow a redirect, or stumble over one.
func (w *wire) send(req *http.Request, body []byte, seen *sighting) (*http.Response, error) {
	give(req, body)
	if w.clear.suits(req.URL, body) {
		return w.clear.send(req, seen)
	}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), seen.trace(req.Context())))
	host := req.URL.Host
	if w.only1 || req.URL.Scheme != "https" {
		return w.old.RoundTrip(req)
	}
	if w.stale.has(host) {
		return w.sendOld(req, host)
	}
	resp, took, err := w.sendNew(req, body, seen)
	switch {
	case !took:
		// No connection took the request, so it may go out still.
		w.stale.refused(host)
		seen.dropUnused()
		give(req, body)
		resp, errOld := w.sendOld(req, host)
		if errOld == nil || req.Context().Err() != nil {
			return resp, errOld
		}
		return nil, err // who speaks HTTP/2 alone is told of that
	case err == nil && resp.ProtoMajor == 2:
		w.stale.answered(host)
	case err != nil && wantsHTTP1(err):
		w.stale.add(host)
	case err != nil && refusedStream(err):
		w.stale.refused(host)
	}
	return resp, err
}

// sendNew looks for a connection that takes the request; took says that there may have been
// one. One that turns out full or closed has net/http look for another, which it can only
// where the body can be rewound; here the request is made anew, as it was not sent.
func (w *wire) sendNew(req *http.Request, body []byte, seen *sighting) (resp *http.Response, took bool, err error) {
	for range triesPerAttempt {
		ctx := seen.try(req.Context())
		try := req.WithContext(ctx)
		give(try, body)
		resp, err = w.new.RoundTrip(try)
		if err == nil || req.Context().Err() != nil || !seen.unsent(ctx, err) {
			return resp, true, err
		}
		if errors.Is(err, errCrowded) {
			break
		}
	}
	return nil, false, err
}

// give gives a request its body. One that can be rewound lets the client send the request
// again by itself, on a kept-alive connection that turns out dead. One that cannot, never.
func give(req *http.Request, body []byte) {
	req.Body, req.ContentLength, req.GetBody = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
}

// sendOld speaks HTTP/1.1 to a host that offers HTTP/2. One that does not answer so
// either is asked by HTTP/2 again.
func (w *wire) sendOld(req *http.Request, host string) (*http.Response, error) {
	resp, err := w.old.RoundTrip(req)
	if err != nil {
		w.stale.forget(host)
	}
	return resp, err
}

// oddStatus is the verdict on an answer of HTTP/2 whose status is not three digits. Go's
// client takes any number there, signs and all; of HTTP/1.1 it reads three digits.
func oddStatus(resp *http.Response) (event.Verdict, bool) {
	if s := resp.Status; resp.ProtoMajor != 2 || len(s) > 3 && s[3] == ' ' && isDigit(s[0]) && isDigit(s[1]) && isDigit(s[2]) {
		return event.Verdict{}, false
	}
	return event.Verdict{Ruling: event.Failure, Class: event.ClassProtocol, Reason: "the answer breaks HTTP/2: its :status is not three digits"}, true
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
