package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"
)

// Policy says which addresses may be dialled. What is asked is the address that is
// really dialled, after DNS and each time, so a name that resolves to something else
// the next time gains nothing.
//
// Denied are all of the IANA special-purpose registries, everything of IPv6 outside
// global unicast (mapped, translated and tunnelled IPv4 with it), and one cloud's
// well-known internal address; open is what an operator opens, by prefix.
type Policy struct {
	guardian *ssrf.Guardian
}

// ErrGuarded is the error of an address that the policy denies.
var ErrGuarded = errors.New("the egress policy denies it")

// internalToClouds are public-looking addresses that lead inside: Azure's platform
// endpoint.
var internalToClouds = []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")}

// privatePrefixes are what EVENTSVC_ALLOW_PRIVATE=true opens: loopback and the private
// ranges, and nothing else that is special. Link-local is not among them: that is where
// clouds keep their metadata.
var privatePrefixes = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("fc00::/7"),
}

// NewPolicy makes a policy that opens the given prefixes.
func NewPolicy(allowed ...netip.Prefix) *Policy {
	var v4, v6 []netip.Prefix
	for _, p := range allowed {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return &Policy{ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV4Prefixes(internalToClouds...))}
}

// ParseAllowed reads EVENTSVC_ALLOW_PRIVATE: true for loopback and the private ranges,
// false or nothing for none, or a list of CIDR prefixes separated by commas.
func ParseAllowed(text string) ([]netip.Prefix, error) {
	switch strings.TrimSpace(text) {
	case "", "false":
		return nil, nil
	case "true":
		return privatePrefixes, nil
	}
	var allowed []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q is no CIDR prefix; write true, false, or prefixes such as 192.168.50.0/24,fd00::/8", strings.TrimSpace(part))
		}
		allowed = append(allowed, p.Masked())
	}
	return allowed, nil
}

// control is net.Dialer.Control.
func (p *Policy) control(_, address string, _ syscall.RawConn) error {
	dialled, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s is no address", ErrGuarded, address)
	}
	return p.check(dialled.Addr())
}

// check denies an address or lets it pass. IPv4 written as IPv6 is judged as the IPv4
// address that it is.
func (p *Policy) check(addr netip.Addr) error {
	if err := p.guardian.SafeAddr(addr.Unmap()); err != nil {
		return fmt.Errorf("%w: %s is %s; an operator can open it with EVENTSVC_ALLOW_PRIVATE", ErrGuarded, addr, kindOf(addr.Unmap()))
	}
	return nil
}

// kindOf says in words what is special about a denied address.
func kindOf(a netip.Addr) string {
	switch {
	case a.IsLoopback():
		return "a loopback address"
	case a.IsPrivate():
		return "a private address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a.IsMulticast():
		return "a multicast address"
	case a.IsUnspecified():
		return "the unspecified address"
	}
	return "in a special-purpose range"
}

const maxURL = 2000

// CheckURL says what is wrong with an address to send to, or nil: it is what can be
// said before a name is resolved.
func (p *Policy) CheckURL(raw string) error {
	if len(raw) > maxURL {
		return fmt.Errorf("is %d characters long; at most %d are allowed", len(raw), maxURL)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "" || strings.ContainsAny(raw, " \t\r\n"):
		return errors.New("is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must begin with https:// or http://")
	case u.User != nil:
		return errors.New("must not hold a user or password; send credentials in a header")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return errors.New("must not hold a fragment: it would never be sent")
	case u.Hostname() == "":
		return errors.New("must name a host")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return errors.New("has no valid port")
		}
	}
	return p.checkHost(u.Hostname())
}

func (p *Policy) checkHost(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.denied(addr)
	}
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil && strings.ContainsFunc(host, func(r rune) bool { return r > '~' }) {
		return errors.New("does not name a host")
	}
	if err == nil {
		host = strings.ToLower(ascii)
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.denied(addr)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return p.denied(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	if looksNumeric(host) {
		return errors.New("names its host by a number in an unusual spelling; write the address as four decimal numbers")
	}
	return nil
}

// denied is check in the words of a declaration: it names the rule and the setting.
func (p *Policy) denied(addr netip.Addr) error {
	if p.guardian.SafeAddr(addr.Unmap()) == nil {
		return nil
	}
	return fmt.Errorf("leads to %s, which the egress policy denies; an operator can open it with EVENTSVC_ALLOW_PRIVATE", kindOf(addr.Unmap()))
}

// looksNumeric reports whether the last label is a number, decimal, octal or
// hexadecimal: no name ends so, but some resolvers read it as an IPv4 address
// (127.1, 0x7f000001, 017700000001).
func looksNumeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return false
	}
	_, err := strconv.ParseUint(last, 0, 64)
	_, errDecimal := strconv.ParseUint(last, 10, 64)
	return err == nil || errDecimal == nil
}

// guarded reports whether an attempt failed because of the policy.
func guarded(err error) bool {
	var op *net.OpError
	return errors.Is(err, ErrGuarded) || errors.As(err, &op) && errors.Is(op.Err, ErrGuarded)
}
