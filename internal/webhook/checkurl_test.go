package webhook

import (
	"strings"
	"testing"
)

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
		"http://a.localhost/": "loopback", "http://169.254.169.254/": "metadata", "http://169.254.1.1/": "link-local", "http://10.0.0.1/": "private", "http://[64:ff9b::a9fe:a9fe]/": "egress policy",
		"http://2130706433/": "unusual", "http://0x7f000001/": "unusual", "http://017700000001/": "unusual", "http://127.1/": "unusual", "http://0/": "unusual",
		"http://１２７.０.０.１/": "loopback", "http://[fe80::1%25eth0]/": "link-local",
	} {
		if err := p.CheckURL(bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", bad, err, says)
		}
	}
}
