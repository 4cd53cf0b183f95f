package webhook

import (
	"net"
	"net/netip"
	"slices"
)

// Own tells the policy where this service listens. Who could have the service call
// itself would speak to it from inside, past whatever guards it; so its own address is
// denied where no operator opened it. An unspecified address is every address that this
// machine has, at that port. It may be called at any time, and the last call counts.
func (p *Policy) Own(listen netip.AddrPort) { p.own.Store(&listen) }

// Close tells the policy where this service is operated, as host:port: nothing opens
// that.
func (p *Policy) Close(listen string) {
	if at, ok := addressOf(listen); ok {
		p.closed.Store(&at)
	}
}

// OwnAt is Own of what is listened on, written as host:port. A name is left out: it is
// known once something listens.
func (p *Policy) OwnAt(listen string) {
	if at, ok := addressOf(listen); ok {
		p.Own(at)
	}
}

func addressOf(listen string) (netip.AddrPort, bool) {
	if host, port, err := net.SplitHostPort(listen); err == nil && host == "" {
		listen = net.JoinHostPort("::", port)
	}
	at, err := netip.ParseAddrPort(listen)
	return at, err == nil
}

// isOwn reports whether the service itself listens there.
func (p *Policy) isOwn(to netip.AddrPort) bool { return listensAt(p.own.Load(), to) }

// isClosed reports whether the service is operated there.
func (p *Policy) isClosed(to netip.AddrPort) bool { return listensAt(p.closed.Load(), to) }

// listensAt reports whether what listens so is reached there. The machine is asked each
// time, since its addresses come and go.
func listensAt(own *netip.AddrPort, to netip.AddrPort) bool {
	if own == nil || own.Port() != to.Port() {
		return false
	}
	a := bare(to.Addr())
	if !own.Addr().IsUnspecified() {
		return bare(own.Addr()) == a
	}
	return slices.Contains(interfaces(), a)
}

// interfaces are the addresses that this machine has.
func interfaces() []netip.Addr {
	all, _ := net.InterfaceAddrs() // none on a machine that does not tell
	var own []netip.Addr
	for _, at := range all {
		if ip, ok := at.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(ip.IP); ok {
				own = append(own, bare(a))
			}
		}
	}
	return own
}

// bare is an address without a zone, and IPv4 that is written as IPv6 as what it is.
func bare(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
