package webhook

import "net/netip"

// The ranges of IPv6 that carry an IPv4 address inside, beside the mapped one.
var (
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291, 2.5.5.1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
)

// embedded are the IPv4 addresses that packets to an IPv6 address end up at, or pass
// through; none where it carries none. bits is the length of the prefix that it was
// opened by: a local NAT64 is read as RFC 6052 says for that length, so it is opened
// with the length of the translator's own prefix.
func embedded(a netip.Addr, bits int) []netip.Addr {
	if a.Is4() || a.IsLoopback() || a.IsUnspecified() {
		return nil
	}
	b := a.As16()
	four := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	switch {
	case compatible.Contains(a), translated.Contains(a), nat64.Contains(a):
		return []netip.Addr{four(12, 13, 14, 15)}
	case sixToFour.Contains(a):
		return []netip.Addr{four(2, 3, 4, 5)}
	case teredo.Contains(a):
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		return []netip.Addr{four(4, 5, 6, 7), client}
	case !localNAT64.Contains(a):
		return nil
	}
	switch bits {
	case 48:
		return []netip.Addr{four(6, 7, 9, 10)}
	case 56:
		return []netip.Addr{four(7, 9, 10, 11)}
	case 64:
		return []netip.Addr{four(9, 10, 11, 12)}
	}
	return []netip.Addr{four(12, 13, 14, 15)}
}
