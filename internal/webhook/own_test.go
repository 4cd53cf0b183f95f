package webhook

import (
	"net/netip"
	"strings"
	"testing"
)

// SSRF-07: whoever could have the service call itself would speak to it from inside.
func TestTheServicesOwnAddressIsDeniedUntilItIsOpened(t *testing.T) {
	p := NewPolicy()
	p.OwnAt("8.8.8.8:8080")
	for to, allowed := range map[string]bool{"8.8.8.8:8080": false, "[::ffff:8.8.8.8]:8080": false, "8.8.8.8:443": true, "8.8.4.4:8080": true} {
		if j := p.Judge(netip.MustParseAddrPort(to)); j.Allowed != allowed {
			t.Errorf("%s: got %+v", to, j)
		}
	}
	if err := p.CheckURL("http://8.8.8.8:8080/v1/events"); err == nil || !strings.Contains(err.Error(), "eventsvc itself") || !strings.Contains(err.Error(), "EVENTSVC_ALLOW_PRIVATE") {
		t.Errorf("got %v", err)
	}
	p.OwnAt("[2606:4700::1111]:80")
	if err := p.CheckURL("http://[2606:4700::1111]/"); err == nil {
		t.Error("the port that http stands for was not seen")
	}
	open := NewPolicy(netip.MustParsePrefix("8.8.8.8/32"))
	open.OwnAt("8.8.8.8:8080")
	if j := open.Judge(netip.MustParseAddrPort("8.8.8.8:8080")); !j.Allowed {
		t.Errorf("opened: %+v", j)
	}
	open.Close("8.8.8.8:9090")
	if j := open.Judge(netip.MustParseAddrPort("[::ffff:8.8.8.8]:9090")); j.Allowed {
		t.Errorf("where it is operated: %+v", j)
	}
	dev := NewPolicy(privatePrefixes...)
	dev.OwnAt("127.0.0.1:8080")
	if j := dev.Judge(netip.MustParseAddrPort("127.0.0.1:8080")); !j.Allowed {
		t.Errorf("the inbox of dev: %+v", j)
	}
}

func TestAnUnspecifiedListenAddressIsEveryAddressOfTheMachine(t *testing.T) {
	for _, listen := range []string{":8080", "0.0.0.0:8080", "[::]:8080"} {
		p := NewPolicy()
		p.OwnAt(listen)
		if len(interfaces()) == 0 {
			t.Error("this machine tells no address, not even loopback")
		}
		for _, a := range interfaces() {
			if !p.isOwn(netip.AddrPortFrom(a, 8080)) || p.isOwn(netip.AddrPortFrom(a, 8081)) {
				t.Errorf("%s: %s", listen, a)
			}
		}
		if p.isOwn(netip.MustParseAddrPort("8.8.8.8:8080")) {
			t.Errorf("%s: another's address is taken for our own", listen)
		}
	}
	named := NewPolicy()
	named.OwnAt("localhost:8080")
	if named.isOwn(netip.MustParseAddrPort("127.0.0.1:8080")) {
		t.Error("a name was resolved")
	}
}
