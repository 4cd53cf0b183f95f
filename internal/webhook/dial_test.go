package webhook

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/eventsvc/eventsvc/internal/event"
)

// P8: checked on the address that is dialled, whatever the name said.
func TestADeniedAddressIsNeverDialled(t *testing.T) {
	p := listen(t, says(ok+"Content-Length: 0\r\n\r\n"))
	_, port, _ := net.SplitHostPort(p.Addr().String())
	strict := New(Options{Policy: NewPolicy(netip.MustParsePrefix("10.0.0.0/8"))})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "１２７.０.０.１", "0.0.0.0", "[::]"} {
		v := attempt(t, strict, claimFor("http://"+host+":"+port+"/"))
		if v.Ruling != event.Failure || v.Class != event.ClassGuarded || !strings.Contains(v.Reason, "egress policy") {
			t.Errorf("%s: got %+v", host, v)
		}
	}
	if p.requests() != 0 {
		t.Errorf("%d requests were made", p.requests())
	}
}

// P8: a name is resolved for each connection, and each answer is judged.
func TestANameThatComesToMeanADeniedAddressIsGuarded(t *testing.T) {
	p := listen(t, says(ok+"Connection: close\r\nContent-Length: 0\r\n\r\n"))
	_, port, _ := net.SplitHostPort(p.Addr().String())
	answers := [][]string{{"127.0.0.1"}, {"10.9.8.7"}, {"10.9.8.7", "127.0.0.1"}, {"169.254.169.254", "10.9.8.7"}}
	asked := make(chan []string, len(answers))
	for _, a := range answers {
		asked <- a
	}
	c := New(Options{Policy: NewPolicy(netip.MustParsePrefix("127.0.0.1/32")), DNS: resolver(t, asked)})
	t.Cleanup(c.CloseIdle)
	claim := claimFor("http://shop.example.com:" + port + "/")
	for i, class := range []event.Class{"", event.ClassGuarded, "", event.ClassGuarded} {
		v := attempt(t, c, claim)
		if v.Class != class {
			t.Errorf("%v: got %s: %s", answers[i], v.Class, v.Reason)
		}
		if strings.Contains(v.Reason, "9.8.7") {
			t.Errorf("the reason tells what the name resolves to: %s", v.Reason)
		}
	}
	if p.requests() != 2 {
		t.Errorf("%d requests were made", p.requests())
	}
}

func TestANameThatDoesNotResolveIsOfClassDNS(t *testing.T) {
	dead := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }}
	nobody := make(chan []string)
	close(nobody)
	for says, dns := range map[string]*net.Resolver{"could not be resolved": dead, "does not resolve": resolver(t, nobody)} {
		c := New(Options{DNS: dns})
		if v := attempt(t, c, claimFor("http://shop.example.com/")); v.Class != event.ClassDNS || !strings.Contains(v.Reason, says) {
			t.Errorf("got %s: %s, want %s", v.Class, v.Reason, says)
		}
	}
}

// resolver answers each question for IPv4 addresses with the next of the answers, and
// every other question with none.
func resolver(t *testing.T, answers <-chan []string) *net.Resolver {
	t.Helper()
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { defer theirs.Close(); answerDNS(theirs, answers) }()
		return ours, nil
	}}
}

// answerDNS speaks DNS as over TCP: each message behind its length in two bytes.
func answerDNS(c net.Conn, answers <-chan []string) {
	var length [2]byte
	for {
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		packed := make([]byte, int(length[0])<<8|int(length[1]))
		if _, err := io.ReadFull(c, packed); err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(packed); err != nil {
			return
		}
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		if m.Questions[0].Type == dnsmessage.TypeA {
			for _, a := range <-answers {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
				})
			}
		}
		if packed, err := m.Pack(); err == nil {
			c.Write(append([]byte{byte(len(packed) >> 8), byte(len(packed))}, packed...))
		}
	}
}
