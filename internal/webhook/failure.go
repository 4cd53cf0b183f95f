package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// failure is the verdict on an attempt that got no answer. Its reason says what
// happened in plain words and, where that is known, what to look at.
func failure(ctx context.Context, err error, timeout time.Duration) event.Verdict {
	class, reason := explain(ctx, err, timeout)
	return event.Verdict{Ruling: event.Failure, Class: class, Reason: reason}
}

func explain(ctx context.Context, err error, timeout time.Duration) (event.Class, string) {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, whose query may hold a secret
	}
	var dns *net.DNSError
	var op *net.OpError
	var proxied proxyError
	switch {
	case errors.Is(err, ErrGuarded):
		return event.ClassGuarded, guardedReason(err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return event.ClassTimeout, "no answer within " + event.Duration(timeout).String()
	case errors.As(err, &proxied):
		return proxied.class, proxied.Error()
	case errors.As(err, &dns):
		return event.ClassDNS, dnsReason(dns)
	case isTLS(err):
		return event.ClassTLS, tlsReason(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return event.ClassConnect, "nothing listens there: connection refused"
	case errors.As(err, &op) && op.Op == "dial":
		return dialReason(op)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return event.ClassConnect, "the connection was reset before an answer came"
	case isTimeout(err):
		return event.ClassTimeout, "the receiver took too long: " + plain(err)
	case errors.As(err, &op):
		return event.ClassConnect, "the connection failed: " + plain(op.Err)
	case strings.Contains(err.Error(), "server closed idle connection"), strings.HasSuffix(err.Error(), "EOF"):
		return event.ClassConnect, "the connection was closed before an answer came"
	}
	return event.ClassProtocol, "the answer is no HTTP/1.1 answer: " + plain(err)
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
	return event.ClassConnect, "no connection: " + plain(op.Err)
}

func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &invalid) ||
		strings.HasPrefix(err.Error(), "tls: ") || strings.Contains(err.Error(), "remote error: tls:") || strings.Contains(err.Error(), "TLS handshake") ||
		speaksPlainHTTP(err)
}

// speaksPlainHTTP reports whether what answered a TLS greeting was an HTTP server.
func speaksPlainHTTP(err error) bool {
	return strings.Contains(err.Error(), "HTTP response to HTTPS client")
}

func tlsReason(err error) string {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return expiry(invalid.Cert, time.Now())
	case errors.As(err, &host):
		return "the certificate is for another host"
	case errors.As(err, &unknown):
		return "the certificate is signed by nobody we know (self-signed, or an intermediate is missing)"
	case errors.As(err, &record), speaksPlainHTTP(err):
		return "what answers does not speak TLS"
	}
	return "no TLS connection: " + plain(err)
}

func expiry(cert *x509.Certificate, now time.Time) string {
	if now.Before(cert.NotBefore) {
		return "the certificate is not valid before " + cert.NotBefore.UTC().Format(time.DateOnly)
	}
	return fmt.Sprintf("the certificate expired %d days ago", int(now.Sub(cert.NotAfter).Hours()/24))
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

// plain is an error's text without the address it names, bounded.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "net/http: ")
	if len(text) > 200 {
		text = text[:200]
	}
	return text
}
