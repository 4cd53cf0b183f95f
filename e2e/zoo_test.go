package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// animal is a receiver with bad manners, and what one attempt at it comes to.
type animal struct {
	name     string
	habitat  func(k *keeper) string // starts it and gives the URL that is declared
	class    string                 // of the attempt, or one of two where the network decides; "" where it succeeds
	status   int                    // that was seen; 0 for none
	evidence []string               // pairs: a path in the attempt, and what stands there; with a * at its end, how it begins
	requests int64                  // that arrive whole or in part: heads, of the HTTP that its door speaks
}

// keeper counts what arrives at an animal.
type keeper struct {
	*testing.T
	ca       authority
	mu       sync.Mutex
	conns    int64
	requests int64
}

func (k *keeper) count(n *int64) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	*n++
	return *n
}

func (k *keeper) counted() (conns, requests int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.conns, k.requests
}

// P4, P6, P10: whatever a receiver does, its delivery has one attempt of the right class,
// it was asked once for it, and a neighbour that is told of the same events gets them all.
func TestTheZooHurtsNobody(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	healthy := open(t, nil)
	p := start(t, pgtest.URL(t), []string{"SSL_CERT_FILE=" + ca.file(t)}, "serve")
	p.declare(t, "healthy", `{"events":["zoo.*"],"url":"`+healthy.URL+`"}`)
	zoo := append(append(rude(), insecure()...), framed()...)
	var visits []*visit
	for n := range zoo {
		visits = append(visits, begin(t, p, ca, &zoo[n], fmt.Sprintf("zoo.n%d", n)))
	}
	for _, v := range visits {
		t.Run(v.animal.name, func(t *testing.T) { v.end(t, p) })
	}
	told := map[string]bool{}
	for range zoo {
		told[healthy.next(t).header.Get("Eventsvc-Event-Type")] = true
	}
	if len(told) != len(zoo) || len(healthy.got) != 0 {
		t.Errorf("the healthy one was told of %d events and then %d more, want %d", len(told), len(healthy.got), len(zoo))
	}
	if a := p.call(t, "GET", "/v1/deliveries?receiver=healthy&limit=200", ""); strings.Count(a.text, `"succeeded"`) != min(len(zoo), 200) {
		t.Errorf("of its deliveries succeeded %d", strings.Count(a.text, `"succeeded"`))
	}
	for _, bad := range []string{"ERROR", "panic", "goroutine ", "Unsolicited", "protocol error: "} {
		if strings.Contains(p.log.String(), bad) {
			t.Errorf("the log says %s", bad)
		}
	}
	if a := p.call(t, "GET", "/readyz", ""); a.status != http.StatusOK {
		t.Errorf("afterwards it is not ready: %s", a.text)
	}
}

// visit is one event that an animal is told of.
type visit struct {
	*animal
	*keeper
	receiver, delivery string
}

func begin(t *testing.T, p *process, ca authority, a *animal, name string) *visit {
	v := &visit{animal: a, keeper: &keeper{T: t, ca: ca}, receiver: name}
	// A second is all that silence gets; who talks is not judged by how busy this machine is.
	timeout := "15s"
	if strings.HasPrefix(a.class, "timeout") {
		timeout = "1s"
	}
	p.declare(t, name, `{"events":["`+name+`"],"url":"`+a.habitat(v.keeper)+`","max_attempts":1,"timeout":"`+timeout+`"}`)
	fired := p.fire(t, name, `{"type":"`+name+`","data":"`+strings.Repeat("a", 10_000)+`"}`)
	v.delivery = deliveryTo(fired, name)
	return v
}

func (v *visit) end(t *testing.T, p *process) {
	want := "dead"
	if v.class == "" {
		want = "succeeded"
	}
	d := p.settled(t, v.delivery, want)
	if d.list("attempt_log") != 1 || d.at("attempts") != "1" {
		t.Errorf("%d attempts recorded, %s spent, want 1: %s", d.list("attempt_log"), d.at("attempts"), d.text)
	}
	status := ""
	if v.status != 0 {
		status = fmt.Sprint(v.status)
	}
	if got := d.at("attempt_log.0.class"); !slices.Contains(strings.Split(v.class, " or "), got) || d.at("attempt_log.0.http_status") != status {
		t.Errorf("class %q and status %q, want %q and %q: %s", got, d.at("attempt_log.0.http_status"), v.class, status, d.text)
	}
	for i := 0; i < len(v.evidence); i += 2 {
		got := d.at("attempt_log.0." + v.evidence[i])
		begins, open := strings.CutSuffix(v.evidence[i+1], "*")
		if got != begins && !(open && strings.HasPrefix(got, begins)) {
			t.Errorf("%s is %.300q, want %q", v.evidence[i], got, v.evidence[i+1])
		}
	}
	for _, secret := range []string{"hush", "127.0.0.1", "GetBody"} {
		if strings.Contains(d.at("attempt_log.0.error"), secret) {
			t.Errorf("the error tells %s: %s", secret, d.at("attempt_log.0.error"))
		}
	}
	if lines := strings.Count(p.log.String(), "receiver "+v.receiver+" failed delivery"); (lines == 1) != (v.class != "") || lines > 1 {
		t.Errorf("%d lines of the failure log", lines)
	}
	// A connection that says at once that it takes nothing may be left for another.
	if conns, requests := v.counted(); !askedRightly(requests, v.animal.requests) || conns > 8 || conns > 1 && !strings.HasPrefix(v.animal.name, "h2") {
		t.Errorf("%s: asked %d times on %d connections, want %d", v.animal.name, requests, conns, v.animal.requests)
	}
}

// upToOne is how often an animal is asked that may be left before it has been.
const upToOne = -1

func askedRightly(times, want int64) bool { return times == want || want == upToOne && times <= 1 }

// deliveryTo is the id of the delivery to one receiver of an event that several are told of.
func deliveryTo(fired answer, receiver string) string {
	for n := range fired.list("deliveries") {
		if at := fmt.Sprintf("deliveries.%d.", n); fired.at(at+"receiver") == receiver {
			return fired.at(at + "id")
		}
	}
	return ""
}
