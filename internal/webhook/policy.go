package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"

	"code.dny.dev/ssrf"
)

// Policy says which addresses may be dialled. What is asked is the address that is
// really dialled, after DNS and each time, so a name that resolves to something else
// the next time gains nothing.
//
// Denied are all of the IANA special-purpose registries, multicast, everything of IPv6
// outside of what is routed publicly, the well-known inner addresses of clouds, and where
// the service itself listens; open is what an operator opens, by prefix. IPv4 within IPv6
// is judged by what it carries, too.
type Policy struct {
	opened  []netip.Prefix
	library *ssrf.Guardian // knows ranges as well: a row that is missing here is denied by it
	own     atomic.Pointer[netip.AddrPort]
	closed  atomic.Pointer[netip.AddrPort] // as own, and never open
}

// ErrGuarded is the error of an address that the policy denies.
var ErrGuarded = errors.New("the egress policy denies the address")

// privatePrefixes are what EVENTSVC_ALLOW_PRIVATE=true opens: loopback and the private
// ranges, and nothing else that is special. Link-local is not among them: that is where
// clouds keep their metadata.
var privatePrefixes = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("fc00::/7"),
}

// NewPolicy makes a policy that opens the given prefixes.
func NewPolicy(opened ...netip.Prefix) *Policy {
	return &Policy{opened: opened, library: ssrf.New(ssrf.WithAnyPort())}
}

// ParseAllowed reads EVENTSVC_ALLOW_PRIVATE: true for loopback and the private ranges,
// false or nothing for none, or a list of CIDR prefixes separated by commas, which opens
// exactly those.
func ParseAllowed(text string) ([]netip.Prefix, error) {
	switch strings.TrimSpace(text) {
	case "", "false":
		return nil, nil
	case "true":
		return privatePrefixes, nil
	}
	var allowed []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		p, err := netip.ParsePrefix(part)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is no CIDR prefix; write true, false, or prefixes such as 192.168.50.0/24,fd00::/8", part)
		case p.Addr().Is4In6():
			return nil, fmt.Errorf("%q is IPv4 written as IPv6; write it as IPv4, such as 192.168.50.0/24", part)
		}
		allowed = append(allowed, p.Masked())
	}
	return allowed, nil
}

// Judgement is what the policy says of one address.
type Judgement struct {
	Allowed bool
	Rule    string // for an operator: it names the range that decided
	kind    string // what is special about it, without a range that could tell the address
	open    remedy
}

// Judge says whether an address may be dialled, and by which rule. IPv4 written as IPv6
// is the IPv4 address that it is, and a zone changes nothing.
func (p *Policy) Judge(to netip.AddrPort) Judgement {
	a := bare(to.Addr())
	if p.isClosed(to) {
		const kind = "where eventsvc is operated"
		return Judgement{Rule: kind + " (EVENTSVC_OPS_LISTEN)", kind: kind, open: useless}
	}
	by, opened := p.opener(a)
	if cloud, found := find(clouds, a); found && !(opened && by.IsSingleIP()) {
		return denied(cloud)
	}
	if !opened {
		return p.unopened(netip.AddrPortFrom(a, to.Port()))
	}
	for _, inner := range embedded(a, by.Bits()) {
		if j := p.Judge(netip.AddrPortFrom(inner, to.Port())); !j.Allowed {
			row, _ := find(ranges, a)
			j.kind, j.Rule = row.kind+", itself "+j.kind, row.kind+", itself "+j.Rule
			return j
		}
	}
	return Judgement{Allowed: true, Rule: "opened by EVENTSVC_ALLOW_PRIVATE (" + by.String() + ")"}
}

// unopened judges an address that no operator opened.
func (p *Policy) unopened(to netip.AddrPort) Judgement {
	if row, found := find(ranges, to.Addr()); found {
		return denied(row)
	}
	if p.library.SafeAddr(to.Addr()) != nil {
		const kind = "outside of what is routed publicly"
		return Judgement{Rule: kind, kind: kind, open: byPrefix}
	}
	if p.isOwn(to) {
		const kind = "where eventsvc itself listens"
		return Judgement{Rule: kind, kind: kind, open: byPrefix}
	}
	return Judgement{Allowed: true, Rule: "a public address"}
}

func denied(row special) Judgement {
	return Judgement{Rule: row.kind + " (" + row.Prefix.String() + ")", kind: row.kind, open: row.open}
}

// opener is the narrowest prefix that an operator opened the address by.
func (p *Policy) opener(a netip.Addr) (by netip.Prefix, opened bool) {
	for _, o := range p.opened {
		if o.Contains(a) && (!opened || o.Bits() > by.Bits()) {
			by, opened = o, true
		}
	}
	return by, opened
}

// control is net.Dialer.Control: it is called for every address that is tried.
func (p *Policy) control(_, address string, _ syscall.RawConn) error {
	dialled, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: it cannot be read", ErrGuarded)
	}
	return p.Judge(dialled).err()
}

// err is nil or wraps ErrGuarded. It does not tell the address: who names a host need
// not learn what it resolves to inside.
func (j Judgement) err() error {
	if j.Allowed {
		return nil
	}
	return fmt.Errorf("%w: it is %s%s", ErrGuarded, j.kind, j.open.clause())
}
