package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Explanation is what the egress policy says of a URL, for an operator: it shows what
// the host resolves to.
type Explanation struct {
	Allowed   bool
	Reason    string
	Host      string
	Addresses []AddressJudgement
}

// AddressJudgement is one address that a host resolves to, as the policy judges it.
type AddressJudgement struct {
	Address netip.Addr
	Judgement
}

// lookupTimeout bounds how long a name is resolved for an explanation.
const lookupTimeout = 5 * time.Second

// Explain says whether a request may be made to a URL now, and why: first what is said
// when it is declared, then each address that its host resolves to. It connects to
// nothing. A URL is allowed when one of its addresses is: those that are denied are
// passed over.
func (c *Courier) Explain(ctx context.Context, raw string) Explanation {
	u, port, err := readURL(raw)
	if err != nil {
		return Explanation{Reason: "the URL " + err.Error()}
	}
	e := Explanation{Host: u.Hostname()}
	if err := c.policy.checkHost(e.Host, port); err != nil {
		e.Reason = "the URL " + err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := lookup(ctx, c.dns, e.Host)
	if err != nil {
		if e.Reason == "" {
			e.Reason = lookupReason(err)
		}
		return e
	}
	var denied []Judgement
	for _, a := range addresses {
		j := c.policy.Judge(netip.AddrPortFrom(a, port))
		e.Addresses = append(e.Addresses, AddressJudgement{a, j})
		if !j.Allowed {
			denied = append(denied, j)
		}
	}
	if e.Reason == "" {
		e.Allowed, e.Reason = len(denied) < len(addresses), summary(denied, len(addresses))
	}
	return e
}

func summary(denied []Judgement, all int) string {
	switch {
	case len(denied) == 0:
		return "the egress policy allows every address that the host resolves to"
	case len(denied) < all:
		return fmt.Sprintf("the egress policy denies %d of the %d addresses that the host resolves to; only the others are dialled", len(denied), all)
	}
	return denied[0].err().Error()
}

// lookup resolves a host to its addresses, in the order in which they are tried; an
// address is itself.
func lookup(ctx context.Context, dns *net.Resolver, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	plain, _ := plainHost(host)
	if plain == "" {
		plain = host
	}
	addresses, err := dns.LookupNetIP(ctx, "ip", plain)
	for i, a := range addresses {
		addresses[i] = a.Unmap()
	}
	return addresses, err
}

func lookupReason(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dnsReason(dns)
	}
	return "the host's name could not be resolved"
}
