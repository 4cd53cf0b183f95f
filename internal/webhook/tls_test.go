package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// authority is a certificate authority that signs for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tests"}, NotBefore: time.Now().Add(-time.Hour * 1000), NotAfter: time.Now().Add(time.Hour * 1000),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	return authority{must(x509.ParseCertificate(der)), key}
}

// issue signs for an address, valid from and until so long from now.
func (a authority) issue(address string, from, until time.Duration) tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until), IPAddresses: []net.IP{net.ParseIP(address)},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// trust has a courier know an authority.
func trust(c *Courier, cert *x509.Certificate) {
	known := x509.NewCertPool()
	known.AddCert(cert)
	c.wire.new.TLSClientConfig.RootCAs = known
	c.wire.old.TLSClientConfig.RootCAs = known
}

// trusting is a courier that knows the authority.
func (a authority) trusting(t *testing.T) *Courier {
	t.Helper()
	c := courier(t)
	trust(c, a.cert)
	return c
}

// secure is a receiver that speaks TLS, and HTTP/2 to whoever asks for it.
func secure(t *testing.T, config *tls.Config) (*httptest.Server, <-chan string) {
	t.Helper()
	protocols := make(chan string, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { protocols <- r.Proto }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2, s.TLS = true, config
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, protocols
}

// The certificate is checked against the name in the URL, and there is no way not to check
// it. Who offers HTTP/2 is spoken to so.
func TestTLSIsVerifiedAndSpeaksHTTP2ToWhoOffersIt(t *testing.T) {
	const day = 24 * time.Hour
	a := newAuthority(t)
	for name, c := range map[string]struct {
		config *tls.Config
		reason string // "" for a success
	}{
		"good":                {&tls.Config{Certificates: []tls.Certificate{a.issue("127.0.0.1", -day, day)}}, ""},
		"expired":             {&tls.Config{Certificates: []tls.Certificate{a.issue("127.0.0.1", -9*day, -3*day-time.Hour)}}, "the certificate expired 3 days ago"},
		"just expired":        {&tls.Config{Certificates: []tls.Certificate{a.issue("127.0.0.1", -9*day, -time.Hour)}}, "the certificate expired less than a day ago"},
		"not valid yet":       {&tls.Config{Certificates: []tls.Certificate{a.issue("127.0.0.1", 2*day, 3*day)}}, "the certificate is not valid before " + time.Now().Add(2*day).UTC().Format(time.DateOnly)},
		"another host":        {&tls.Config{Certificates: []tls.Certificate{a.issue("192.0.2.1", -day, day)}}, "the certificate is for another host"},
		"unknown":             {&tls.Config{Certificates: []tls.Certificate{newAuthority(t).issue("127.0.0.1", -day, day)}}, "the certificate is signed by nobody we know (self-signed, or an intermediate is missing)"},
		"TLS 1.1":             {&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, Certificates: []tls.Certificate{a.issue("127.0.0.1", -day, day)}}, "no TLS connection: "},
		"wants a certificate": {&tls.Config{MaxVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert, Certificates: []tls.Certificate{a.issue("127.0.0.1", -day, day)}}, "no TLS connection: "},
	} {
		server, protocols := secure(t, c.config)
		v := attempt(t, a.trusting(t), claimFor(server.URL))
		switch {
		case c.reason == "" && v.Ruling != event.Success, c.reason != "" && (v.Class != event.ClassTLS || !strings.HasPrefix(v.Reason, c.reason)):
			t.Errorf("%s: got %s %s: %s", name, v.Ruling, v.Class, v.Reason)
		case c.reason == "":
			if got := <-protocols; got != "HTTP/2.0" {
				t.Errorf("spoke %s", got)
			}
			if seen := v.Evidence.Timings; seen.Connect <= 0 || seen.TLS <= 0 || seen.FirstByte < seen.TLS || seen.Reused {
				t.Errorf("saw %+v", seen)
			}
		}
	}
}

func TestWhatDoesNotSpeakTLSIsOfClassTLS(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(net.Conn)
		class  event.Class
		reason string
	}{
		"HTTP":    {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); io.Copy(io.Discard, c) }, event.ClassTLS, "what answers does not speak TLS"},
		"SSH":     {func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n"); io.Copy(io.Discard, c) }, event.ClassTLS, "what answers does not speak TLS"},
		"silence": {func(c net.Conn) { io.Copy(io.Discard, c) }, event.ClassTimeout, "no answer within 1s"},
		"hang-up": {func(c net.Conn) {}, event.ClassConnect, "the connection was"},
	} {
		l := accept(t, c.handle)
		v := attempt(t, courier(t), claimFor("https://"+l.Addr().String()+"/", func(r *event.Receiver) { r.Timeout = time.Second }))
		if v.Class != c.class || !strings.HasPrefix(v.Reason, c.reason) {
			t.Errorf("%s: got %s: %s", name, v.Class, v.Reason)
		}
	}
}
