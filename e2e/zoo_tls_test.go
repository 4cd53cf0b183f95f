package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	return authorityUnder(t, authority{})
}

// authorityUnder is an authority that another vouches for, or itself where there is none.
func authorityUnder(t testing.TB, above authority) authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: rand.Text()}, NotBefore: time.Now().Add(-1000 * time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if above.cert == nil {
		above = authority{template, key}
	}
	return authority{parsed(t, template, above, key), key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func parsed(t testing.TB, template *x509.Certificate, by authority, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issue signs for 127.0.0.1, for an hour to each side, with whatever change is asked for.
func (a authority) issue(t testing.TB, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if change != nil {
		change(template)
	}
	if a.cert == nil {
		a = authority{template, key}
	}
	return tls.Certificate{Certificate: [][]byte{parsed(t, template, a, key).Raw}, PrivateKey: key}
}

// file holds its certificate, for SSL_CERT_FILE.
func (a authority) file(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// handshakes is where an animal lives that greets like this, and answers 200 to who stays.
func handshakes(greeting func(k *keeper) *tls.Config) func(*keeper) string {
	return func(k *keeper) string {
		config := greeting(k)
		return secured(k, func(g *guest) {
			c := tls.Server(g.Conn, config)
			if in := (&guest{c, bufio.NewReader(c), g.k}); in.hear() {
				io.WriteString(c, fine+"Content-Length: 0\r\n\r\n")
			}
			c.Close()
		})
	}
}

// certified greets with one certificate.
func certified(of func(k *keeper) tls.Certificate) func(*keeper) string {
	return handshakes(func(k *keeper) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{of(k)}} })
}

// signed greets with a certificate that is ours but for a change.
func signed(change func(*x509.Certificate)) func(*keeper) string {
	return certified(func(k *keeper) tls.Certificate { return k.ca.issue(k, change) })
}

// greets like the good one, but for a change.
func greets(change func(*tls.Config)) func(*keeper) string {
	return handshakes(func(k *keeper) *tls.Config {
		config := &tls.Config{Certificates: []tls.Certificate{k.ca.issue(k, nil)}}
		change(config)
		return config
	})
}

// secured does what it does on bare connections, where TLS is expected.
func secured(k *keeper, script func(g *guest)) string {
	return "https://" + k.accept(script) + "/hook?key=hush"
}

// instead does what it does where TLS is expected, once it has been greeted.
func instead(script func(g *guest)) func(*keeper) string {
	return func(k *keeper) string {
		return secured(k, func(g *guest) { g.Read(make([]byte, 4096)); script(g) })
	}
}

// overTLS does what it does on a good TLS connection, and on the bare one below it.
func overTLS(script func(c *tls.Conn, below net.Conn)) func(*keeper) string {
	return func(k *keeper) string {
		config := &tls.Config{Certificates: []tls.Certificate{k.ca.issue(k, nil)}}
		return secured(k, func(g *guest) {
			c := tls.Server(g.Conn, config)
			if in := (&guest{c, bufio.NewReader(c), g.k}); in.hear() {
				script(c, g.Conn)
			}
		})
	}
}

// insecure are those with whom no, or no good, TLS connection comes about.
func insecure() []animal {
	const day = 24 * time.Hour
	return []animal{
		{"TLS, good", signed(nil), "", 200, nil, 1},
		{"TLS 1.2", greets(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), "", 200, nil, 1},
		{"TLS, with an intermediate", certified(func(k *keeper) tls.Certificate {
			between := authorityUnder(k, k.ca)
			cert := between.issue(k, nil)
			cert.Certificate = append(cert.Certificate, between.cert.Raw)
			return cert
		}), "", 200, nil, 1},
		{"TLS, intermediate missing", certified(func(k *keeper) tls.Certificate { return authorityUnder(k, k.ca).issue(k, nil) }), "tls", 0, []string{"error", "the certificate is signed by nobody we know*"}, 0},
		{"expired", signed(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-9*day), time.Now().Add(-3*day-time.Hour)
		}), "tls", 0, []string{"error", "the certificate expired 3 days ago*"}, 0},
		{"not valid yet", signed(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(2*day), time.Now().Add(3*day) }), "tls", 0, []string{"error", "the certificate is not valid before*"}, 0},
		{"another address", signed(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }), "tls", 0, []string{"error", "the certificate is for another host*"}, 0},
		{"a name, not an address", signed(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"shop.example.com"} }), "tls", 0, []string{"error", "the certificate is for another host*"}, 0},
		{"common name alone", signed(func(c *x509.Certificate) { c.IPAddresses, c.Subject = nil, pkix.Name{CommonName: "127.0.0.1"} }), "tls", 0, []string{"error", "the certificate is for another host*"}, 0},
		{"a certificate of clients", signed(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), "tls", 0, nil, 0},
		{"self-signed", certified(func(k *keeper) tls.Certificate { return authority{}.issue(k, nil) }), "tls", 0, []string{"error", "the certificate is signed by nobody we know*"}, 0},
		{"of an authority unknown", certified(func(k *keeper) tls.Certificate { return newAuthority(k).issue(k, nil) }), "tls", 0, []string{"error", "the certificate is signed by nobody we know*"}, 0},
		{"certificates of 1 MiB", certified(func(k *keeper) tls.Certificate {
			cert := k.ca.issue(k, nil)
			for len(cert.Certificate) < 3000 {
				cert.Certificate = append(cert.Certificate, k.ca.cert.Raw)
			}
			return cert
		}), "tls", 0, nil, 0},
		{"TLS 1.0 alone", greets(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 }), "tls", 0, nil, 0},
		{"TLS 1.1 alone", greets(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), "tls", 0, nil, 0},
		{"weak cipher alone", greets(func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA}
		}), "tls", 0, nil, 0},
		{"no protocol in common", greets(func(c *tls.Config) { c.NextProtos = []string{"ftp"} }), "tls", 0, nil, 0},
		{"wants a certificate, TLS 1.2", greets(func(c *tls.Config) { c.MaxVersion, c.ClientAuth = tls.VersionTLS12, tls.RequireAnyClientCert }), "tls", 0, nil, 0},
		{"wants a certificate, TLS 1.3", greets(func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }), "tls or connect", 0, nil, 0}, // the client may still be writing

		{"plain HTTP where TLS is expected", instead(func(g *guest) { io.WriteString(g, "HTTP/1.1 400 Bad Request\r\n\r\n"); io.Copy(io.Discard, g) }), "tls", 0, []string{"error", "what answers does not speak TLS*"}, 0},
		{"SSH where TLS is expected", instead(func(g *guest) { io.WriteString(g, "SSH-2.0-OpenSSH_9.6\r\n"); io.Copy(io.Discard, g) }), "tls", 0, []string{"error", "what answers does not speak TLS*"}, 0},
		{"a record beyond its bound", instead(func(g *guest) { io.WriteString(g, "\x16\x03\x03\xff\xff"); io.Copy(io.Discard, g) }), "tls", 0, nil, 0},
		{"half a greeting, then a hang-up", instead(func(g *guest) { io.WriteString(g, "\x16\x03\x03\x00\x50half") }), "connect", 0, nil, 0},
		{"half a greeting, then silence", instead(func(g *guest) { io.WriteString(g, "\x16\x03\x03\x00\x50half"); io.Copy(io.Discard, g) }), "timeout", 0, nil, 0},
		{"an alert for a greeting", instead(func(g *guest) { io.WriteString(g, "\x15\x03\x03\x00\x02\x02\x28") }), "tls", 0, nil, 0},
		{"alerts without end", instead(func(g *guest) {
			for {
				if _, err := io.WriteString(g, "\x15\x03\x03\x00\x02\x01\x5a"); err != nil {
					return
				}
			}
		}), "tls", 0, nil, 0},
		{"hang-up for a greeting", instead(func(*guest) {}), "connect", 0, nil, 0},
		{"reset for a greeting", instead(func(g *guest) { g.reset() }), "connect", 0, nil, 0},
		{"silence for a greeting", instead(func(g *guest) { io.Copy(io.Discard, g) }), "timeout", 0, nil, 0},

		{"hang-up within TLS", overTLS(func(c *tls.Conn, _ net.Conn) { c.Close() }), "connect", 0, nil, 1},
		{"cut below TLS", overTLS(func(_ *tls.Conn, below net.Conn) { below.Close() }), "connect", 0, nil, 1},
		{"noise below TLS", overTLS(func(_ *tls.Conn, below net.Conn) {
			io.WriteString(below, "\x17\x03\x03\x00\x30"+string(make([]byte, 0x30)))
		}), "tls", 0, nil, 1},
		{"plain HTTP below TLS", overTLS(func(_ *tls.Conn, below net.Conn) { io.WriteString(below, fine+"\r\n") }), "tls", 0, nil, 1},
		{"silence within TLS", overTLS(func(c *tls.Conn, _ net.Conn) { io.Copy(io.Discard, c) }), "timeout", 0, nil, 1},
		{"no HTTP within TLS", overTLS(func(c *tls.Conn, _ net.Conn) { io.WriteString(c, "hello\r\n\r\n"); c.Close() }), "protocol", 0, nil, 1},
		{"body cut below TLS", overTLS(func(c *tls.Conn, below net.Conn) {
			io.WriteString(c, fine+"Content-Length: 9\r\n\r\nhi")
			below.Close()
		}), "", 200, []string{"response.body", "hi"}, 1},
		{"answer, then noise below TLS", overTLS(func(c *tls.Conn, below net.Conn) {
			io.WriteString(c, fine+"Content-Length: 0\r\n\r\n")
			io.WriteString(below, "noise")
		}), "", 200, nil, 1},

		{"TLS where HTTP is expected", tcp(func(g *guest) {
			io.CopyN(io.Discard, g, 10_000)
			io.WriteString(g, "\x15\x03\x01\x00\x02\x02\x46")
		}), "protocol", 0, nil, 0},
		{"TLS where HTTP is expected, that explains", says("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"), "http_4xx", 400, nil, 1},
	}
}
