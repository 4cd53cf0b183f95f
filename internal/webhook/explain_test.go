package webhook

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func explainer(t *testing.T, answers []string, opened ...netip.Prefix) *Courier {
	asked := make(chan []string, 1)
	asked <- answers
	close(asked)
	return New(Options{Policy: NewPolicy(opened...), DNS: resolver(t, asked)})
}

// An operator sees each address and the rule that decided; a URL is allowed when one of
// its addresses is.
func TestAnExplanationJudgesEveryAddressOfAHost(t *testing.T) {
	ten := netip.MustParsePrefix("10.0.0.0/8")
	for _, c := range []struct {
		url, answers string
		opened       []netip.Prefix
		want         string
	}{
		{"https://shop.example.com/", "8.8.8.8", nil, "true every address|shop.example.com|8.8.8.8 true a public address"},
		{"https://shop.example.com/", "10.1.2.3", nil, "false it is a private address; an operator can open it with EVENTSVC_ALLOW_PRIVATE|shop.example.com|10.1.2.3 false a private address (10.0.0.0/8)"},
		{"https://shop.example.com/", "10.1.2.3", []netip.Prefix{ten}, "true every address|shop.example.com|10.1.2.3 true opened by EVENTSVC_ALLOW_PRIVATE (10.0.0.0/8)"},
		{"https://shop.example.com/", "8.8.8.8 169.254.169.254", nil, "true denies 1 of the 2|shop.example.com|8.8.8.8 true a public address|169.254.169.254 false a cloud's metadata address (169.254.169.254/32)"},
		{"https://shop.example.com/", "127.0.0.1 10.0.0.1", nil, "false egress policy denies|shop.example.com|127.0.0.1 false a loopback address (127.0.0.0/8)|10.0.0.1 false a private address (10.0.0.0/8)"},
		{"https://shop.example.com/", "", nil, "false does not resolve|shop.example.com"},
		{"http://10.0.0.1/", "", nil, "false the URL leads to a private address|10.0.0.1|10.0.0.1 false a private address (10.0.0.0/8)"},
		{"http://[64:ff9b::a9fe:a9fe]/", "", []netip.Prefix{nat64}, "false itself a cloud's metadata address|64:ff9b::a9fe:a9fe|64:ff9b::a9fe:a9fe false an IPv4 address behind NAT64, itself a cloud's metadata address (169.254.169.254/32)"},
		{"http://8.8.2056/", "8.8.8.8", nil, "false write 8.8.8.8|8.8.2056|8.8.8.8 true a public address"},
		{"ftp://shop.example.com/", "", nil, "false the URL must begin|"},
	} {
		e := explainer(t, strings.Fields(c.answers), c.opened...).Explain(t.Context(), c.url)
		want := strings.Split(c.want, "|")
		allowed, says, _ := strings.Cut(want[0], " ")
		if fmt.Sprint(e.Allowed) != allowed || !strings.Contains(e.Reason, says) || e.Host != want[1] || len(e.Addresses) != len(want)-2 {
			t.Errorf("%s: got %+v", c.url, e)
			continue
		}
		for i, a := range e.Addresses {
			if got := fmt.Sprintf("%s %t %s", a.Address, a.Allowed, a.Rule); got != want[i+2] {
				t.Errorf("%s: got %s, want %s", c.url, got, want[i+2])
			}
		}
	}
}
