package webhook

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// failure is the verdict on an attempt that got no answer. Its reason says what
// happened in plain words and, where that is known, what to look at. It never tells what
// the host's name resolved to, nor the URL: its query may hold a secret.
func failure(ctx context.Context, err error, timeout time.Duration) event.Verdict {
	class, reason := explain(ctx, err, timeout)
	return event.Verdict{Ruling: event.Failure, Class: class, Reason: reason}
}

// maxReason bounds a reason, in bytes. What net/http quotes of an answer can be as long
// as all of its headers.
const maxReason = 300

func explain(ctx context.Context, err error, timeout time.Duration) (event.Class, string) {
	class, reason := classify(ctx, withoutURL(err), timeout)
	return class, safeText(reason, maxReason)
}

func classify(ctx context.Context, err error, timeout time.Duration) (event.Class, string) {
	var dns *net.DNSError
	var op *net.OpError
	var proxied proxyError
	h2class, h2reason, isHTTP2 := http2Failure(err)
	switch {
	case errors.Is(err, ErrGuarded):
		return event.ClassGuarded, guardedReason(err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return event.ClassTimeout, "no answer within " + event.Duration(timeout).String()
	case ctx.Err() != nil:
		return event.ClassConnect, "the attempt was cut off on our side before an answer came"
	case errors.As(err, &proxied):
		return proxied.class, proxied.Error()
	case errors.As(err, &dns):
		return event.ClassDNS, dnsReason(dns)
	case isTLS(err):
		return event.ClassTLS, tlsReason(err, time.Now())
	case errors.Is(err, syscall.ECONNREFUSED):
		return event.ClassConnect, "nothing listens there: connection refused"
	case errors.As(err, &op) && op.Op == "dial":
		return dialReason(op)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return event.ClassConnect, "the connection was reset before an answer came"
	case isTimeout(err):
		return event.ClassTimeout, "the receiver took too long: " + cause(err)
	case isHTTP2:
		return h2class, h2reason
	case closedEarly(err):
		return event.ClassConnect, "the connection was closed before an answer came"
	case errors.As(err, &op):
		return event.ClassConnect, "the connection failed: " + cause(err)
	}
	return event.ClassProtocol, "the answer is no HTTP answer: " + plain(err)
}

// withoutURL is what a url.Error is about. The URL itself stays out of every message.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// closedEarly reports whether the peer hung up before its status line. net/http has error
// values for little of it; what is written once it has seen that fails as on a connection
// that is closed.
func closedEarly(err error) bool {
	return errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "server closed idle connection") || strings.Contains(err.Error(), "cannot rewind body after connection loss") || strings.HasSuffix(err.Error(), "EOF")
}

func guardedReason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

func dnsReason(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return "the host's name does not resolve"
	case err.IsTimeout:
		return "the host's name did not resolve in time"
	}
	return "the host's name could not be resolved"
}

func dialReason(op *net.OpError) (event.Class, string) {
	if op.Timeout() {
		return event.ClassTimeout, "the connection was not accepted in time"
	}
	return event.ClassConnect, "no connection: " + cause(op)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// cause is the innermost reason of an error of package net, without the addresses that
// stand around it.
func cause(err error) string {
	var op *net.OpError
	for errors.As(err, &op) {
		err = op.Err
	}
	return plain(err)
}

// plain is an error's text without the package that it comes from.
func plain(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "net/http: "), "HTTP/1.x transport connection broken: ")
}
