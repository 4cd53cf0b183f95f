package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// What no peer on this machine can be made to do is shown to explain as net and
// net/http would.
func TestAReasonSaysWhatHappenedAndNeverWhatANameResolvesTo(t *testing.T) {
	inside := &net.TCPAddr{IP: net.IPv4(10, 9, 8, 7), Port: 80}
	op := func(name string, err error) error {
		return &net.OpError{Op: name, Net: "tcp", Source: inside, Addr: inside, Err: err}
	}
	call := func(errno syscall.Errno) error { return os.NewSyscallError("connect", errno) }
	for _, c := range []struct {
		err    error
		class  event.Class
		reason string
	}{
		{op("dial", call(syscall.ECONNREFUSED)), event.ClassConnect, "nothing listens there: connection refused"},
		{op("dial", call(syscall.EHOSTUNREACH)), event.ClassConnect, "no connection: connect: no route to host"},
		{op("dial", call(syscall.ETIMEDOUT)), event.ClassTimeout, "the connection was not accepted in time"},
		{op("dial", os.ErrDeadlineExceeded), event.ClassTimeout, "the connection was not accepted in time"},
		{op("read", call(syscall.ECONNRESET)), event.ClassConnect, "the connection was reset before an answer came"},
		{fmt.Errorf("write: %w", op("write", call(syscall.EPIPE))), event.ClassConnect, "the connection was reset before an answer came"},
		{op("read", call(syscall.ETIMEDOUT)), event.ClassTimeout, "the receiver took too long: connect: connection timed out"},
		{op("read", fmt.Errorf("again: %w", op("read", errors.New("no buffer space")))), event.ClassConnect, "the connection failed: no buffer space"},
		{op("remote error", op("read", errors.New("tls: bad certificate"))), event.ClassConnect, "the connection failed: tls: bad certificate"},
		{op("dial", &net.DNSError{Err: "no such host", Name: "db.inside", Server: "10.9.8.7", IsNotFound: true}), event.ClassDNS, "the host's name does not resolve"},
		{op("dial", &net.DNSError{Err: "i/o timeout", Name: "db.inside", Server: "10.9.8.7", IsTimeout: true}), event.ClassDNS, "the host's name did not resolve in time"},
		{&net.OpError{Op: "local error", Err: errors.New("tls: bad record MAC")}, event.ClassTLS, "no TLS connection: tls: bad record MAC"},
		{fmt.Errorf("write: %w", op("write", net.ErrClosed)), event.ClassConnect, "the connection was closed before an answer came"},
		{errors.New("net/http: cannot rewind body after connection loss"), event.ClassConnect, "the connection was closed before an answer came"},
		{io.ErrUnexpectedEOF, event.ClassConnect, "the connection was closed before an answer came"},
		{errors.New("net/http: TLS handshake timeout"), event.ClassTLS, "no TLS connection: TLS handshake timeout"},
		{errors.New("net/http: HTTP/1.x transport connection broken: malformed HTTP status code \"x\""), event.ClassProtocol, "the answer is no HTTP answer: malformed HTTP status code \"x\""},
	} {
		v := failure(context.Background(), c.err, time.Second)
		if v.Ruling != event.Failure || v.Class != c.class || v.Reason != c.reason || strings.Contains(v.Reason, "10.9.8.7") {
			t.Errorf("%v: got %s %s: %s", c.err, v.Ruling, v.Class, v.Reason)
		}
	}
}

// SSRF-11: on_failure is held to the same.
func TestWhatIsSaidOfOnFailureTellsNeitherItsQueryNorItsAddress(t *testing.T) {
	hangsUp, redirects := listen(t, func(int, net.Conn) bool { return false }), listen(t, says("HTTP/1.1 302 Found\r\nLocation: http://[bad?key=hush\r\nContent-Length: 0\r\n\r\n"))
	one, gone := byName(t, hangsUp)
	two, moved := byName(t, redirects)
	for url, c := range map[string]*Courier{gone: one, moved: two, "http://[bad/?key=hush": courier(t), "ftp://shop.example.com/?key=hush": courier(t), "http://10.0.0.1/?key=hush": New(Options{})} {
		claim := claimFor("http://shop.example.com/", func(r *event.Receiver) { r.OnFailure = url })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := c.Tell(ctx, claim.To, &event.Notice{})
		cancel()
		if err == nil || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "10.0.0.1") {
			t.Errorf("%s: got %v", url, err)
		}
	}
	if redirects.requests() != 1 {
		t.Errorf("%d requests to a receiver that redirects", redirects.requests())
	}
}
