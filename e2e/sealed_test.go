package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// P3: a process that cannot open a receiver's secret still owes it what is fired.
func TestAReceiverWhoseSecretCannotBeOpenedIsOwedItsEventsUntilItCan(t *testing.T) {
	t.Parallel()
	url, s := pgtest.URL(t), open(t, nil)
	key := func(c string) []string { return []string{"EVENTSVC_SECRET_KEY=" + strings.Repeat(c, 43) + "="} }
	first := start(t, url, key("A"), "serve")
	first.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	first.stop(t, syscall.SIGTERM)

	wrong := start(t, url, key("E"), "serve")
	wrong.log.await(t, "a stored receiver cannot be used")
	fired := wrong.fire(t, "k", `{"type":"a.b","data":1}`)
	if fired.list("deliveries") != 1 {
		t.Fatalf("a declared receiver is owed nothing: %s", fired.text)
	}
	wrong.stop(t, syscall.SIGTERM)
	if len(s.got) != 0 {
		t.Error("a request was made without its secret")
	}

	right := start(t, url, key("A"), "serve")
	s.next(t)
	right.settled(t, fired.at("deliveries.0.id"), "succeeded")
}
