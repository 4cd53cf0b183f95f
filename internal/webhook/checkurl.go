package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxURL bounds an address to send to, in bytes.
const maxURL = 2000

// CheckURL says what is wrong with an address to send to, and what would do, or nil. It
// is what can be said when the address is declared: no name is resolved, so none of what
// a name leads to is told. The address that is dialled is judged again, each time.
func (p *Policy) CheckURL(raw string) error {
	u, port, err := readURL(raw)
	if err != nil {
		return err
	}
	return p.checkHost(u.Hostname(), port)
}

// readURL reads an address to send to, and the port that it leads to.
func readURL(raw string) (*url.URL, uint16, error) {
	if len(raw) > maxURL {
		return nil, 0, fmt.Errorf("is %d characters long; at most %d are allowed", len(raw), maxURL)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil && strings.Contains(err.Error(), "invalid port"):
		return nil, 0, errPort
	case err != nil || u.Opaque != "" || strings.ContainsAny(raw, " \t\r\n"):
		return nil, 0, errors.New("is no URL; write one such as https://shop.example.com/hooks")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, 0, errors.New("must begin with https:// or http://")
	case u.User != nil:
		return nil, 0, errors.New("must not hold a user or password; send credentials in a header")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return nil, 0, errors.New("must not hold a fragment: it would never be sent")
	case u.Hostname() == "":
		return nil, 0, errors.New("must name a host")
	}
	port, err := portOf(u)
	return u, port, err
}

var errPort = errors.New("has no valid port: write one of 1 to 65535, or leave it out")

func portOf(u *url.URL) (uint16, error) {
	switch {
	case u.Port() != "":
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || n == 0 {
			return 0, errPort
		}
		return uint16(n), nil
	case u.Scheme == "https":
		return 443, nil
	}
	return 80, nil
}

// checkHost refuses a host that is not spelled plainly, since others may read it as
// another one than we do, and an address that the policy denies.
func (p *Policy) checkHost(host string, port uint16) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return errors.New("must not name a zone (%" + addr.Zone() + "): it means something on one machine only; write the address without it")
		}
		return p.checkAddr(addr, port)
	}
	plain, flaw := plainHost(host)
	switch {
	case flaw != nil && plain == "":
		return flaw
	case flaw != nil:
		if err := p.checkHost(plain, port); err != nil {
			return fmt.Errorf("%w; and %s %w", flaw, plain, err)
		}
		return fmt.Errorf("%w; write %s", flaw, plain)
	case plain == "localhost" || strings.HasSuffix(plain, ".localhost"): // RFC 6761, 6.3
		return p.checkLocalhost(port)
	}
	return nil
}

// checkLocalhost passes when either of the two addresses that it stands for may be
// dialled.
func (p *Policy) checkLocalhost(port uint16) error {
	if p.Judge(netip.AddrPortFrom(netip.IPv6Loopback(), port)).Allowed {
		return nil
	}
	return p.checkAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
}

func (p *Policy) checkAddr(a netip.Addr, port uint16) error {
	j := p.Judge(netip.AddrPortFrom(a, port))
	if j.Allowed {
		return nil
	}
	return errors.New("leads to " + j.kind + ", which the egress policy denies" + j.open.clause())
}
