package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// proxy dials by way of a forward proxy, for http and https alike: it asks for a tunnel
// with CONNECT. The name of the target is resolved here, and the proxy is asked for an
// address that the policy allows; a proxy that was given the name would resolve it again,
// to whatever it means by then. The proxy's own address is the operator's choice, and no
// matter of the policy.
type proxy struct {
	at     *url.URL
	agent  string
	policy *Policy
	dns    *net.Resolver
	dialer net.Dialer
	tls    *tls.Config // of the proxy itself, where its URL is https
}

// ParseProxy reads EVENTSVC_EGRESS_PROXY; "" is none. Its error does not repeat the text,
// which may hold a password.
func ParseProxy(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("it must be an http or https URL, such as http://user:password@proxy.example.com:3128")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("it must hold nothing after the port")
	}
	if _, err := portOf(u); err != nil {
		return nil, errors.New("it " + err.Error())
	}
	return u, nil
}

func newProxy(o *Options, agent string) *proxy {
	return &proxy{at: o.Proxy, agent: agent, policy: o.Policy, dns: o.DNS, dialer: net.Dialer{Timeout: connectTimeout, Resolver: o.DNS},
		tls: &tls.Config{ServerName: o.Proxy.Hostname(), MinVersion: tls.VersionTLS12}}
}

// DialContext tries each address of the target in turn, those that the policy denies
// left out, until the proxy has a tunnel to one. Its error is that of the first.
func (x *proxy) DialContext(ctx context.Context, _, target string) (net.Conn, error) {
	host, service, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	addresses, err := lookup(ctx, x.dns, host)
	if err != nil {
		return nil, err
	}
	var first error
	for _, a := range addresses {
		to := netip.AddrPortFrom(bare(a), uint16(port))
		err := x.policy.Judge(to).err()
		if err == nil {
			var conn net.Conn
			if conn, err = x.tunnel(ctx, to); err == nil {
				return conn, nil
			}
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// tunnel is a connection to an address that goes through the proxy.
func (x *proxy) tunnel(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	conn, err := x.reach(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	err = x.connect(conn, to)
	if !stop() && err == nil {
		err = proxyError{event.ClassTimeout, "did not answer in time"}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// reach is a connection to the proxy itself.
func (x *proxy) reach(ctx context.Context) (net.Conn, error) {
	port, err := portOf(x.at)
	if err != nil {
		return nil, err
	}
	conn, err := x.dialer.DialContext(ctx, "tcp", net.JoinHostPort(x.at.Hostname(), strconv.Itoa(int(port))))
	if err != nil {
		return nil, unreached(err)
	}
	if x.at.Scheme == "http" {
		return conn, nil
	}
	secure := tls.Client(conn, x.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, proxyError{event.ClassTLS, "cannot be trusted: " + tlsReason(err, time.Now())}
	}
	return secure, nil
}

// connect asks the proxy for a tunnel. Nothing of it may be read ahead: what comes after
// the answer is the target's.
func (x *proxy) connect(conn net.Conn, to netip.AddrPort) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: to.String()}, Host: to.String(), Header: http.Header{"User-Agent": {x.agent}}}
	if user := x.at.User; user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return broken(err)
	}
	in := bufio.NewReader(io.LimitReader(conn, maxResponseHeaders))
	resp, err := http.ReadResponse(in, req)
	switch {
	case err != nil:
		return broken(err)
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return proxyError{event.ClassConnect, answered(resp.StatusCode) + "; check the user and password in EVENTSVC_EGRESS_PROXY"}
	case resp.StatusCode != http.StatusOK:
		return proxyError{event.ClassConnect, answered(resp.StatusCode) + " when it was asked for a tunnel"}
	case in.Buffered() > 0:
		return proxyError{event.ClassProtocol, "sent something of its own into the tunnel"}
	}
	return nil
}

// proxyError is a failure on the way to the target that is the proxy's.
type proxyError struct {
	class event.Class
	what  string
}

// Error names the proxy, and neither its address nor the target's.
func (e proxyError) Error() string { return "the egress proxy " + e.what }

func unreached(err error) proxyError {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return proxyError{event.ClassDNS, "cannot be reached: " + dnsReason(dns)}
	case isTimeout(err):
		return proxyError{event.ClassTimeout, "cannot be reached: the connection was not accepted in time"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return proxyError{event.ClassConnect, "cannot be reached: connection refused"}
	}
	return proxyError{event.ClassConnect, "cannot be reached: " + cause(err)}
}

func broken(err error) proxyError {
	if isTimeout(err) {
		return proxyError{event.ClassTimeout, "did not answer in time"}
	}
	return proxyError{event.ClassConnect, "gave no answer that can be read"}
}
