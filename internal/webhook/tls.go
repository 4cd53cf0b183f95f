package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// isTLS reports whether an attempt failed for want of a TLS connection that can be
// trusted. Not everything that crypto/tls and net/http say of it has a type.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &invalid) ||
		strings.HasPrefix(err.Error(), "tls: ") || strings.Contains(err.Error(), "remote error: tls:") || strings.Contains(err.Error(), "local error: tls:") || strings.Contains(err.Error(), "TLS handshake") ||
		speaksPlainHTTP(err)
}

// speaksPlainHTTP reports whether what answered a TLS greeting was an HTTP server.
func speaksPlainHTTP(err error) bool {
	return strings.Contains(err.Error(), "HTTP response to HTTPS client")
}

func tlsReason(err error, now time.Time) string {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return expiry(invalid.Cert, now)
	case errors.As(err, &host):
		return "the certificate is for another host"
	case errors.As(err, &unknown):
		return "the certificate is signed by nobody we know (self-signed, or an intermediate is missing)"
	case errors.As(err, &record), speaksPlainHTTP(err):
		return "what answers does not speak TLS"
	}
	return "no TLS connection: " + cause(err)
}

// expiry says when a certificate is valid, if not now. x509 calls one that is not valid
// yet expired too.
func expiry(cert *x509.Certificate, now time.Time) string {
	if now.Before(cert.NotBefore) {
		return "the certificate is not valid before " + cert.NotBefore.UTC().Format(time.DateOnly)
	}
	switch days := int(now.Sub(cert.NotAfter).Hours() / 24); days {
	case 0:
		return "the certificate expired less than a day ago"
	case 1:
		return "the certificate expired a day ago"
	default:
		return fmt.Sprintf("the certificate expired %d days ago", days)
	}
}
