package webhook

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"code.dny.dev/ssrf"
)

func judge1(p *Policy, address string) Judgement {
	return p.Judge(netip.AddrPortFrom(netip.MustParseAddr(address), 443))
}

// P8: what is judged is the address that is dialled, in any spelling.
func TestThePolicyDeniesEverySpecialAddress(t *testing.T) {
	p := NewPolicy()
	for _, no := range []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.0.0.1", "10.0.0.1", "100.64.0.1", "100.127.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.192", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1",
		"203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "::ffff:0:7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
		"100::1", "100:0:0:1::1", "2001::1", "2001:1ff:ffff::1", "2001:db8::1", "2002:7f00:1::", "2620:4f:8000::1", "3fff::1", "3fff:fff:ffff::1", "4000::1", "5f00::1",
		"fc00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fe80::1%eth0", "::1%lo", "fec0::1", "ff02::1", "1fff:ffff::1", "8000::1",
		"64:ff9b::808:808", "2002:808:808::1", "::8.8.8.8",
	} {
		if j := judge1(p, no); j.Allowed || j.Rule == "" || j.kind == "" {
			t.Errorf("%s: got %+v", no, j)
		}
	}
	for _, open := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "168.63.129.15", "169.255.0.0",
		"192.167.255.255", "192.169.0.0", "223.255.255.255", "2606:4700::1111", "2001:200::1", "2003::1", "3ffe:ffff::1", "::ffff:8.8.8.8",
	} {
		if j := judge1(p, open); !j.Allowed {
			t.Errorf("%s is denied as %s", open, j.Rule)
		}
	}
}

// P8, generated from the table: each row is denied from its first address to its last,
// by the name of the narrowest row; what lies beside it, only by another row.
func TestEveryRowOfTheRegistriesIsDeniedToItsEnds(t *testing.T) {
	if _, err := time.Parse(time.DateOnly, registriesAsOf); err != nil {
		t.Error(err)
	}
	p, all := NewPolicy(), slices.Concat(ranges, clouds)
	for _, row := range all {
		if row.Prefix != row.Masked() {
			t.Errorf("%s has bits beyond its length", row.Prefix)
		}
		first, last := row.Addr(), lastOf(row.Prefix)
		for _, a := range []netip.Addr{first, last} {
			want, ok := find(clouds, a)
			if !ok {
				want, _ = find(ranges, a)
			}
			if j := judge1(p, a.String()); j.Allowed || j.kind != want.kind || !strings.Contains(j.Rule, want.Prefix.String()) {
				t.Errorf("%s of %s: got %+v", a, row.Prefix, j)
			}
		}
		for _, a := range []netip.Addr{first.Prev(), last.Next()} {
			if !a.IsValid() {
				continue
			}
			_, known := find(all, a)
			public := a.Is4() || netip.MustParsePrefix("2000::/3").Contains(a)
			if j := judge1(p, a.String()); j.Allowed != (public && !known) {
				t.Errorf("%s, beside %s: got %+v", a, row.Prefix, j)
			}
		}
	}
	for _, known := range slices.Concat(ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes) {
		for _, a := range []netip.Addr{known.Addr(), lastOf(known)} {
			if _, found := find(ranges, a); !found {
				t.Errorf("%s of the library's %s has no row", a, known)
			}
		}
	}
}

// P8: no form of IPv6 carries a denied IPv4 address past the policy, even where the
// operator opened the form; a public one passes then, and only then.
func TestIPv4WithinIPv6IsJudgedByWhatItCarries(t *testing.T) {
	forms := map[string]func(b [4]byte) [16]byte{
		"::/96":           func(b [4]byte) (x [16]byte) { copy(x[12:], b[:]); return },
		"::ffff:0:0:0/96": func(b [4]byte) (x [16]byte) { x[8], x[9] = 0xff, 0xff; copy(x[12:], b[:]); return },
		"64:ff9b::/96":    func(b [4]byte) (x [16]byte) { copy(x[:], "\x00\x64\xff\x9b"); copy(x[12:], b[:]); return },
		"64:ff9b:1:fffe::/96": func(b [4]byte) (x [16]byte) {
			copy(x[:], "\x00\x64\xff\x9b\x00\x01\xff\xfe")
			copy(x[12:], b[:])
			return
		},
		"64:ff9b:1::/48": func(b [4]byte) (x [16]byte) {
			copy(x[:], "\x00\x64\xff\x9b\x00\x01")
			copy(x[6:], b[:2])
			copy(x[9:], b[2:])
			return
		},
		"64:ff9b:1:ab00::/56": func(b [4]byte) (x [16]byte) {
			copy(x[:], "\x00\x64\xff\x9b\x00\x01\xab")
			x[7] = b[0]
			copy(x[9:], b[1:])
			return
		},
		"64:ff9b:1:abcd::/64": func(b [4]byte) (x [16]byte) {
			copy(x[:], "\x00\x64\xff\x9b\x00\x01\xab\xcd")
			copy(x[9:], b[:])
			return
		},
		"2002::/16": func(b [4]byte) (x [16]byte) { copy(x[:], "\x20\x02"); copy(x[2:], b[:]); return },
		"2001::/32": func(b [4]byte) (x [16]byte) {
			copy(x[:], "\x20\x01\x00\x00\x08\x08\x08\x08")
			x[12], x[13], x[14], x[15] = ^b[0], ^b[1], ^b[2], ^b[3]
			return
		},
		"2001:0:808:800::/54": func(b [4]byte) (x [16]byte) {
			copy(x[:], "\x20\x01\x00\x00\x08\x08\x08\x08")
			x[12], x[13], x[14], x[15] = ^b[0], ^b[1], ^b[2], ^b[3]
			return
		},
	}
	for prefix, in := range forms {
		open := NewPolicy(netip.MustParsePrefix(prefix))
		for _, row := range slices.Concat(ranges, clouds) {
			if !row.Addr().Is4() {
				continue
			}
			for _, a := range []netip.Addr{row.Addr(), lastOf(row.Prefix)} {
				carrier := netip.AddrFrom16(in(a.As4()))
				if carrier.IsUnspecified() {
					continue
				}
				for name, p := range map[string]*Policy{"closed": NewPolicy(), "true": NewPolicy(privatePrefixes...), "opened": open} {
					if j := p.Judge(netip.AddrPortFrom(carrier, 80)); j.Allowed {
						t.Errorf("%s: %s, which carries %s, may be dialled: %+v", name, carrier, a, j)
					}
				}
			}
		}
		public := netip.AddrPortFrom(netip.AddrFrom16(in([4]byte{8, 8, 4, 4})), 80)
		if j := open.Judge(public); !j.Allowed {
			t.Errorf("%s: %s, opened: %+v", prefix, public, j)
		}
		if j := NewPolicy().Judge(public); j.Allowed {
			t.Errorf("%s: %s, not opened: %+v", prefix, public, j)
		}
	}
	// A Teredo address names the server that it goes through as well.
	through := judge1(NewPolicy(netip.MustParsePrefix("2001::/32")), "2001:0:7f00:1::f7f7:fbfb")
	if through.Allowed {
		t.Errorf("got %+v", through)
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func TestAnOperatorOpensPrefixesAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		text, open, denied string
	}{
		{"", "1.1.1.1", "127.0.0.1 10.0.0.1"},
		{" false ", "1.1.1.1", "127.0.0.1 10.0.0.1"},
		{"true", "127.0.0.1 ::1 10.1.2.3 172.20.0.1 192.168.1.1 ::ffff:127.0.0.1 fd12::1",
			"169.254.169.254 169.254.1.1 100.64.0.1 100.100.100.200 0.0.0.0 :: ::127.0.0.1 fe80::1 64:ff9b::7f00:1 2002:7f00:1:: 168.63.129.16 192.0.0.192 224.0.0.1 " +
				"fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:42::42 fd00:100::100:200 fd00:c1::a9fe:a9fe fd00:a9fe:a9fe::1 fe80::a9fe:a9fe"},
		{"192.168.50.0/24, fd00::/8", "192.168.50.9 fd12::1", "192.168.51.9 127.0.0.1 fc00::1 fd00:ec2::254"},
		{"192.168.50.7/24", "192.168.50.9", "192.168.51.9"},
		{"169.254.0.0/16", "169.254.1.1", "169.254.169.254 169.254.170.2 169.254.170.23 ::ffff:169.254.169.254"},
		{"100.64.0.0/10", "100.64.0.1", "100.100.100.200"},
		{"169.254.169.254/32", "169.254.169.254", "169.254.1.1"},
		{"64:ff9b::/96", "64:ff9b::808:808", "64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 127.0.0.1 64:ff9b:1::808:808"},
		{"64:ff9b::/96,10.0.0.0/8", "64:ff9b::a00:1", "64:ff9b::7f00:1"},
		{"fe80::/10", "fe80::1 fe80::1%eth0", "fec0::1"},
	} {
		prefixes, err := ParseAllowed(c.text)
		if err != nil {
			t.Fatal(err)
		}
		p := NewPolicy(prefixes...)
		for _, a := range strings.Fields(c.open) {
			if j := judge1(p, a); !j.Allowed {
				t.Errorf("%q: %s is denied as %s", c.text, a, j.Rule)
			}
		}
		for _, a := range strings.Fields(c.denied) {
			if j := judge1(p, a); j.Allowed {
				t.Errorf("%q: %s may be dialled: %s", c.text, a, j.Rule)
			}
		}
	}
	for _, bad := range []string{"yes", "TRUE", "10.0.0.1", "10.0.0.0/33", "10.0.0.0/8,", "true,10.0.0.0/8", "::ffff:10.0.0.0/104", "::ffff:0:0/96", "fe80::%eth0/10"} {
		if _, err := ParseAllowed(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// SSRF-11: the words tell what is special, and not the address, nor a range of one.
func TestADenialDoesNotTellTheAddress(t *testing.T) {
	for address, want := range map[string]string{
		"192.168.50.9":    "the egress policy denies the address: it is a private address; an operator can open it with EVENTSVC_ALLOW_PRIVATE",
		"169.254.169.254": "the egress policy denies the address: it is a cloud's metadata address; EVENTSVC_ALLOW_PRIVATE opens it only by a prefix of this one address",
		"224.0.0.1":       "the egress policy denies the address: it is a multicast address",
		"64:ff9b::7f00:1": "the egress policy denies the address: it is an IPv4 address behind NAT64; " + string(byBothEnds),
		"100.64.0.1":      "the egress policy denies the address: it is an address shared behind a carrier; " + string(byPrefix),
	} {
		if got := judge1(NewPolicy(), address).err(); got == nil || got.Error() != want {
			t.Errorf("%s: got %v", address, got)
		}
	}
}
