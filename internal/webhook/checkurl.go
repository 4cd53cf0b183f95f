package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

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
	j := p.Judge(netip.AddrPortFrom(addr, 0))
	if j.Allowed {
		return nil
	}
	return errors.New("leads to " + j.kind + ", which the egress policy denies" + j.open.clause())
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
