package webhook

import (
	"net/netip"
	"slices"
)

// registriesAsOf is the day of the IANA special-purpose registries that specials holds
// every row of.
const registriesAsOf = "2026-07-18"

// special is a range of addresses that lead nowhere, inside, or around the policy.
type special struct {
	netip.Prefix
	kind string // in the words of a person
	open remedy
}

// remedy is what an operator can do about a denial, or nothing.
type remedy string

const (
	// useless is for what nothing can be delivered to, whatever is opened.
	useless    remedy = ""
	byTrue     remedy = "an operator can open it with EVENTSVC_ALLOW_PRIVATE"
	byPrefix   remedy = "an operator can open its range with EVENTSVC_ALLOW_PRIVATE, by a CIDR prefix"
	byItself   remedy = "EVENTSVC_ALLOW_PRIVATE opens it only by a prefix of this one address"
	byBothEnds remedy = "an operator can open it with EVENTSVC_ALLOW_PRIVATE, by a CIDR prefix of the IPv6 range; the IPv4 address inside is judged too"
)

// clause is the remedy as the end of a sentence.
func (r remedy) clause() string {
	if r == useless {
		return ""
	}
	return "; " + string(r)
}

func block(prefix, kind string, open remedy) special {
	return special{netip.MustParsePrefix(prefix), kind, open}
}

// specials are every row of the IANA special-purpose registries (RFC 6890), those that
// are reachable globally among them, since no receiver lives there:
// https://www.iana.org/assignments/iana-ipv4-special-registry and
// https://www.iana.org/assignments/iana-ipv6-special-registry. Of IPv4-mapped addresses
// there is none, because they are judged as the IPv4 addresses that they are.
var specials = []special{
	block("0.0.0.0/8", "an address of this network", useless),                     // RFC 791, 3.2
	block("0.0.0.0/32", "the unspecified address", useless),                       // RFC 1122, 3.2.1.3: reaches this very host
	block("10.0.0.0/8", "a private address", byTrue),                              // RFC 1918
	block("100.64.0.0/10", "an address shared behind a carrier", byPrefix),        // RFC 6598
	block("127.0.0.0/8", "a loopback address", byTrue),                            // RFC 1122, 3.2.1.3
	block("169.254.0.0/16", "a link-local address", byPrefix),                     // RFC 3927
	block("172.16.0.0/12", "a private address", byTrue),                           // RFC 1918
	block("192.0.0.0/24", "an address of IETF protocols", useless),                // RFC 6890, 2.1
	block("192.0.0.0/29", "an address of IPv4 service continuity", byPrefix),      // RFC 7335
	block("192.0.0.8/32", "the IPv4 dummy address", useless),                      // RFC 7600
	block("192.0.0.9/32", "an anycast address of port control", useless),          // RFC 7723
	block("192.0.0.10/32", "an anycast address of relays", useless),               // RFC 8155
	block("192.0.0.170/32", "an address of NAT64 discovery", useless),             // RFC 8880
	block("192.0.0.171/32", "an address of NAT64 discovery", useless),             // RFC 8880
	block("192.0.2.0/24", "an address for documentation", useless),                // RFC 5737
	block("192.31.196.0/24", "an address of AS112", useless),                      // RFC 7535
	block("192.52.193.0/24", "an address of AMT", useless),                        // RFC 7450
	block("192.88.99.0/24", "an address of 6to4 relays", useless),                 // RFC 7526
	block("192.88.99.2/32", "an anycast address of relays", useless),              // RFC 6751
	block("192.168.0.0/16", "a private address", byTrue),                          // RFC 1918
	block("192.175.48.0/24", "an address of AS112", useless),                      // RFC 7534
	block("198.18.0.0/15", "an address for benchmarks", byPrefix),                 // RFC 2544
	block("198.51.100.0/24", "an address for documentation", useless),             // RFC 5737
	block("203.0.113.0/24", "an address for documentation", useless),              // RFC 5737
	block("240.0.0.0/4", "a reserved address", byPrefix),                          // RFC 1112, 4
	block("255.255.255.255/32", "the broadcast address", useless),                 // RFC 8190
	block("::1/128", "a loopback address", byTrue),                                // RFC 4291
	block("::/128", "the unspecified address", useless),                           // RFC 4291: reaches this very host
	block("64:ff9b::/96", "an IPv4 address behind NAT64", byBothEnds),             // RFC 6052
	block("64:ff9b:1::/48", "an IPv4 address behind a local NAT64", byBothEnds),   // RFC 8215
	block("100::/64", "an address that discards", useless),                        // RFC 6666
	block("100:0:0:1::/64", "an address of the dummy prefix", useless),            // RFC 9780
	block("2001::/23", "an address of IETF protocols", useless),                   // RFC 2928
	block("2001::/32", "an IPv4 address behind Teredo", byBothEnds),               // RFC 4380
	block("2001:1::1/128", "an anycast address of port control", useless),         // RFC 7723
	block("2001:1::2/128", "an anycast address of relays", useless),               // RFC 8155
	block("2001:1::3/128", "an anycast address of service registration", useless), // RFC 9665
	block("2001:2::/48", "an address for benchmarks", byPrefix),                   // RFC 5180
	block("2001:3::/32", "an address of AMT", useless),                            // RFC 7450
	block("2001:4:112::/48", "an address of AS112", useless),                      // RFC 7535
	block("2001:10::/28", "an overlay's identifier", useless),                     // RFC 4843
	block("2001:20::/28", "an overlay's identifier", useless),                     // RFC 7343
	block("2001:30::/28", "an entity tag of drones", useless),                     // RFC 9374
	block("2001:db8::/32", "an address for documentation", useless),               // RFC 3849
	block("2002::/16", "an IPv4 address behind 6to4", byBothEnds),                 // RFC 3056
	block("2620:4f:8000::/48", "an address of AS112", useless),                    // RFC 7534
	block("3fff::/20", "an address for documentation", useless),                   // RFC 9637
	block("5f00::/16", "an address of segment routing", byPrefix),                 // RFC 9602
	block("fc00::/7", "a private address", byTrue),                                // RFC 4193
	block("fe80::/10", "a link-local address", byPrefix),                          // RFC 4291
}

// beyond are ranges that other registries and RFCs set aside.
var beyond = []special{
	block("224.0.0.0/4", "a multicast address", useless),                // RFC 5771
	block("ff00::/8", "a multicast address", useless),                   // RFC 4291
	block("fec0::/10", "a site-local address", byPrefix),                // RFC 3879
	block("::/96", "an IPv4 address within IPv6", byBothEnds),           // RFC 4291, 2.5.5.1
	block("::ffff:0:0:0/96", "an IPv4 address within IPv6", byBothEnds), // RFC 2765
}

// ranges are all that is special.
var ranges = slices.Concat(specials, beyond)

// clouds are where clouds keep what their machines may do, credentials among it. A range
// that an operator opens does not open these; a prefix of one address does.
var clouds = []special{
	block("169.254.169.254/32", "a cloud's metadata address", byItself),     // AWS, Azure, Google and most others
	block("169.254.170.2/32", "a cloud's metadata address", byItself),       // AWS, for containers
	block("169.254.170.23/32", "a cloud's metadata address", byItself),      // AWS, for pods
	block("fd00:ec2::/32", "a cloud's metadata address", byItself),          // AWS: all that its machines are served from
	block("fd20:ce::254/128", "a cloud's metadata address", byItself),       // Google
	block("168.63.129.16/32", "a cloud's internal address", byItself),       // Azure; public by its looks
	block("100.100.100.200/32", "a cloud's metadata address", byItself),     // Alibaba
	block("fd00:100::100:200/128", "a cloud's metadata address", byItself),  // Alibaba
	block("192.0.0.192/32", "a cloud's metadata address", byItself),         // Oracle
	block("fd00:c1::a9fe:a9fe/128", "a cloud's metadata address", byItself), // Oracle
	block("169.254.42.42/32", "a cloud's metadata address", byItself),       // Scaleway
	block("fd00:42::42/128", "a cloud's metadata address", byItself),        // Scaleway
	block("fd00:a9fe:a9fe::1/128", "a cloud's metadata address", byItself),  // Akamai
	block("169.254.0.23/32", "a cloud's metadata address", byItself),        // Tencent
	block("fe80::a9fe:a9fe/128", "a cloud's metadata address", byItself),    // OpenStack
}

// find is the narrowest of the rows that holds the address.
func find(rows []special, a netip.Addr) (found special, ok bool) {
	for _, row := range rows {
		if row.Contains(a) && (!ok || row.Bits() > found.Bits()) {
			found, ok = row, true
		}
	}
	return found, ok
}
