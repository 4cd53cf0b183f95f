package webhook

import (
	"net/netip"
	"strings"
	"testing"
)

// P8: what is judged is the address that is dialled, in any spelling.
func TestThePolicyDeniesEverySpecialAddress(t *testing.T) {
	p := NewPolicy()
	for _, denied := range []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.0.0.1", "10.0.0.1", "100.64.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1",
		"255.255.255.255", "168.63.129.16",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
		"100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
	} {
		if err := p.check(netip.MustParseAddr(denied)); err == nil {
			t.Errorf("%s may be dialled", denied)
		}
	}
	for _, open := range []string{"1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1", "168.63.129.15", "2606:4700::1111", "::ffff:8.8.8.8"} {
		if err := p.check(netip.MustParseAddr(open)); err != nil {
			t.Errorf("%s: %v", open, err)
		}
	}
}

func TestAnOperatorOpensPrefixesAndNothingElse(t *testing.T) {
	private, err := ParseAllowed("true")
	if err != nil {
		t.Fatal(err)
	}
	own, err := ParseAllowed("192.168.50.0/24, fd00::/8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		policy *Policy
		addr   string
		open   bool
	}{
		{NewPolicy(private...), "127.0.0.1", true}, {NewPolicy(private...), "::1", true}, {NewPolicy(private...), "10.1.2.3", true},
		{NewPolicy(private...), "::ffff:127.0.0.1", true}, {NewPolicy(private...), "fd12::1", true},
		{NewPolicy(private...), "169.254.169.254", false}, {NewPolicy(private...), "100.64.0.1", false}, {NewPolicy(private...), "0.0.0.0", false},
		{NewPolicy(own...), "192.168.50.9", true}, {NewPolicy(own...), "192.168.51.9", false}, {NewPolicy(own...), "127.0.0.1", false},
	} {
		if err := c.policy.check(netip.MustParseAddr(c.addr)); (err == nil) != c.open {
			t.Errorf("%s: got %v, want open: %v", c.addr, err, c.open)
		}
	}
	for _, bad := range []string{"yes", "10.0.0.1", "10.0.0.0/33", "10.0.0.0/8,"} {
		if _, err := ParseAllowed(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestURLsAreCheckedWhenDeclared(t *testing.T) {
	p := NewPolicy()
	for _, good := range []string{"https://shop.example.com/hooks?a=b", "http://shop.example.com:8080", "https://xn--bcher-kva.example/", "https://bücher.example/", "https://8.8.8.8/", "https://a_b.example.com/", "https://shop.example.com./"} {
		if err := p.CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, says := range map[string]string{
		"": "must begin", "shop.example.com": "must begin", "ftp://shop.example.com": "must begin", "file:///etc/passwd": "must begin", "http:": "name a host", "http://": "name a host",
		"https://u:p@shop.example.com/": "user or password", "https://shop.example.com/#x": "fragment", "https://shop.example.com:0/": "port", "https://shop.example.com:99999/": "port",
		"https://shop.example.com/a b": "no URL", "https://" + strings.Repeat("a", 2000): "at most",
		"http://127.0.0.1/": "loopback", "http://[::1]/": "loopback", "http://[::ffff:127.0.0.1]/": "loopback", "http://localhost/": "loopback", "http://LOCALHOST./": "loopback",
		"http://a.localhost/": "loopback", "http://169.254.169.254/": "link-local", "http://10.0.0.1/": "private", "http://[64:ff9b::a9fe:a9fe]/": "egress policy",
		"http://2130706433/": "unusual", "http://0x7f000001/": "unusual", "http://017700000001/": "unusual", "http://127.1/": "unusual", "http://0/": "unusual",
		"http://１２７.０.０.１/": "loopback", "http://[fe80::1%25eth0]/": "link-local",
	} {
		if err := p.CheckURL(bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", bad, err, says)
		}
	}
}
