package webhook

import (
	"strings"
	"testing"
)

// SSRF-14: what is refused is every spelling but the plain one, with what would do.
func TestURLsAreCheckedWhenDeclared(t *testing.T) {
	p := NewPolicy()
	for _, good := range []string{
		"https://shop.example.com/hooks?a=b", "http://shop.example.com:8080", "https://shop.example.com:/", "https://xn--bcher-kva.example/", "https://bücher.example/", "https://BÜCHER.example/",
		"https://8.8.8.8/", "https://[2606:4700::1111]:8443/", "https://[::ffff:8.8.8.8]/", "https://a_b.example.com/", "https://1.example/", "https://example.a1/", "HTTPS://Shop.Example.COM/",
		"https://x.example/" + strings.Repeat("a", maxURL-len("https://x.example/")), "https://" + strings.Repeat("a", 63) + ".example/",
	} {
		if err := p.CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for says, all := range map[string][]string{
		"must begin":       {"", "shop.example.com", "ftp://shop.example.com", "file:///etc/passwd", "//shop.example.com/"},
		"must name a host": {"http:", "http://", "http:///x", "http://:80/"},
		"not name a host":  {"http://a..b/", "http://.a/", "http://a../", "http://./", "http://\u3002/", "http://exa$mple.com/", "http://a*b/", "http://\u202e.example/", "https://" + strings.Repeat("a", 64) + ".example/", "https://" + strings.Repeat("a.", 127) + "example/"},
		"user or password": {"https://u:p@shop.example.com/", "https://u@shop.example.com/", "https://@shop.example.com/"},
		"fragment":         {"https://shop.example.com/#x", "https://shop.example.com/#"},
		"1 to 65535":       {"https://shop.example.com:0/", "https://shop.example.com:65536/", "https://shop.example.com:99999/", "https://shop.example.com:x/", "https://shop.example.com:-1/", "https://shop.example.com:8080:80/"},
		"no URL": {"https://shop.example.com/a b", "https://shop.example.com/\n", "https:shop.example.com", "http://evil\\@shop.example.com/",
			"http://127.0.0.%31/", "http://127.0.0.1%00/", "http://[::1", "http://[v1.a]/"},
		"at most":     {"https://" + strings.Repeat("a", maxURL)},
		"loopback":    {"http://127.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::FFFF:7F00:1]/", "http://localhost/", "http://a.localhost/", "http://ⓛocalhost/", "http://localhost./", "http://127.0.0.1./"},
		"private":     {"http://10.0.0.1/", "http://192.168.1.1:8080/", "http://[fd12::1]/"},
		"metadata":    {"http://169.254.169.254/", "http://[fd00:ec2::254]/", "http://[::ffff:a9fe:a9fe]/", "http://100.100.100.200/"},
		"within":      {"http://[::127.0.0.1]/"},
		"NAT64":       {"http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::a9fe:a9fe]/"},
		"6to4":        {"http://[2002:7f00:1::]/"},
		"Teredo":      {"http://[2001:0:7f00:1::]/"},
		"link-local":  {"http://[fe80::1]/", "http://169.254.1.1/"},
		"multicast":   {"http://224.0.0.1/", "http://[ff02::1]/"},
		"unspecified": {"http://0.0.0.0:8080/", "http://[::]:8080/"},
		"a zone (%":   {"http://[fe80::1%25eth0]/", "http://[::1%25lo]/", "http://[2606:4700::1111%25x]/"},
		"spells its host in an unusual way; and 127.0.0.1 leads to a loopback": {"http://2130706433/", "http://0x7f000001/", "http://0x7F000001/", "http://017700000001/", "http://0177.0.0.1/", "http://127.1/", "http://127.0.1/",
			"http://127.0.0.01/", "http://0x7f.1/", "http://２１３０７０６４３３/", "http://127.1./"},
		"spells its host in an unusual way; write 8.8.8.8":                {"http://8.8.2056/", "http://010.8.8.8/", "http://134744072/"},
		"unusual way; and 0.0.0.0 leads to the unspecified":               {"http://0/", "http://00/", "http://0x0/"},
		"spells its host with unusual characters; and 127.0.0.1 leads to": {"http://１２７.０.０.１/", "http://１２７。０。０。１/", "http://①②⑦.0.0.1/"},
		"spells its host with unusual characters; write shop.example.com": {"http://ｓhop.example.com/", "http://shop。example.com/", "http://shop.example．com/"},
		"must not end its host with a dot; write shop.example.com":        {"https://shop.example.com./"},
		"no IPv4 address of four decimal numbers":                         {"http://999.1.1.1/", "http://1.2.3.4.5/", "http://256.256.256.256/", "http://1.0b1.1.1/", "http://99999999999999999999999/", "http://0x/", "http://shop.example.1/", "http://1.1_1.1.1/"},
	} {
		for _, bad := range all {
			if err := p.CheckURL(bad); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%q: got %v, want %q", bad, err, says)
			}
		}
	}
}

// SSRF-13: the message names the rule and the setting, where the setting would help.
func TestADeniedURLSaysHowAnOperatorOpensIt(t *testing.T) {
	for url, want := range map[string]string{
		"http://192.168.50.9/":    "leads to a private address, which the egress policy denies; an operator can open it with EVENTSVC_ALLOW_PRIVATE",
		"http://100.64.0.1/":      "leads to an address shared behind a carrier, which the egress policy denies; an operator can open its range with EVENTSVC_ALLOW_PRIVATE, by a CIDR prefix",
		"http://169.254.169.254/": "leads to a cloud's metadata address, which the egress policy denies; EVENTSVC_ALLOW_PRIVATE opens it only by a prefix of this one address",
		"http://224.0.0.1/":       "leads to a multicast address, which the egress policy denies",
	} {
		if err := NewPolicy().CheckURL(url); err == nil || err.Error() != want {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

func TestWhatIsOpenedMayBeDeclaredInItsPlainSpellingOnly(t *testing.T) {
	p := NewPolicy(privatePrefixes...)
	for _, good := range []string{"http://127.0.0.1:8080/", "http://localhost:8080/", "http://[::1]/", "http://10.0.0.1/"} {
		if err := p.CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, says := range map[string]string{"http://127.1/": "write 127.0.0.1", "http://localhost./": "write localhost", "http://１２７.０.０.１/": "write 127.0.0.1", "http://[fe80::1%25eth0]/": "zone"} {
		if err := p.CheckURL(bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

// What a name is read as never depends on who reads it, and reading never panics.
func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{"https://shop.example.com/", "http://0x7f.1/", "http://[::1%25lo]/", "http://１２７.1/", "http://bücher.example./"} {
		f.Add(seed)
	}
	closed, open := NewPolicy(), NewPolicy(privatePrefixes...)
	f.Fuzz(func(t *testing.T, raw string) {
		if closed.CheckURL(raw) == nil && open.CheckURL(raw) != nil {
			t.Errorf("%q may be declared where less is opened", raw)
		}
	})
}
