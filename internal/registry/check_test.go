package registry_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// flawsOf are the pointers of what is wrong with a declaration.
func flawsOf(t testing.TB, change ...func(*registry.Declaration)) (pointers []string) {
	t.Helper()
	d := declaration(change...)
	err := over(t, nil).Check(&d)
	var flaws event.Flaws
	if err != nil && !errors.As(err, &flaws) {
		t.Fatalf("no flaws but %v", err)
	}
	for _, f := range flaws {
		pointers = append(pointers, f.Pointer)
	}
	return pointers
}

func duration(d time.Duration) *event.Duration { return ptr(event.Duration(d)) }

// many are n entries with the value.
func many(n int, value string) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("x-%d", i)] = value
	}
	return m
}

func TestEveryBoundOfADeclarationHoldsOnBothSides(t *testing.T) {
	text := strings.Repeat
	for name, c := range map[string]struct {
		good, bad func(*registry.Declaration)
		pointer   string
	}{
		"description": {
			func(d *registry.Declaration) { d.Description = text("x", 1000) },
			func(d *registry.Declaration) { d.Description = text("x", 1001) }, "/description"},
		"lane": {
			func(d *registry.Declaration) { d.Lane = text("x", 64) },
			func(d *registry.Declaration) { d.Lane = text("x", 65) }, "/lane"},
		"first of the lane": {
			func(d *registry.Declaration) { d.Lane = "a.b" },
			func(d *registry.Declaration) { d.Lane = ".b" }, "/lane"},
		"control in the tenant": {
			func(d *registry.Declaration) { d.Tenant = "größer a" },
			func(d *registry.Declaration) { d.Tenant = "a\nb" }, "/tenant"},
		"delete in the description": {
			func(d *registry.Declaration) { d.Description = "~" },
			func(d *registry.Declaration) { d.Description = "\x7f" }, "/description"},
		"max_attempts": {
			func(d *registry.Declaration) { d.MaxAttempts = ptr(1000) },
			func(d *registry.Declaration) { d.MaxAttempts = ptr(1001) }, "/max_attempts"},
		"fewest max_concurrency": {
			func(d *registry.Declaration) { d.MaxConcurrency = ptr(1) },
			func(d *registry.Declaration) { d.MaxConcurrency = ptr(0) }, "/max_concurrency"},
		"max_concurrency": {
			func(d *registry.Declaration) { d.MaxConcurrency = ptr(1000) },
			func(d *registry.Declaration) { d.MaxConcurrency = ptr(1001) }, "/max_concurrency"},
		"shortest backoff_base": {
			func(d *registry.Declaration) { d.BackoffBase = duration(1) },
			func(d *registry.Declaration) { d.BackoffBase = duration(-1) }, "/backoff_base"},
		"shortest backoff_cap": {
			func(d *registry.Declaration) { d.BackoffCap = duration(1) },
			func(d *registry.Declaration) { d.BackoffCap = duration(-1) }, "/backoff_cap"},
		"shortest give_up_after": {
			func(d *registry.Declaration) { d.GiveUpAfter = duration(1) },
			func(d *registry.Declaration) { d.GiveUpAfter = duration(-1) }, "/give_up_after"},
		"shortest timeout": {
			func(d *registry.Declaration) { d.Timeout = duration(1) },
			func(d *registry.Declaration) { d.Timeout = duration(-1) }, "/timeout"},
		"longest lease": {
			func(d *registry.Declaration) { d.Lease = duration(24 * time.Hour) },
			func(d *registry.Declaration) { d.Lease = duration(24*time.Hour + 1) }, "/lease"},
		"lease against the default timeout": {
			func(d *registry.Declaration) { d.Lease = duration(15*time.Second + 1) },
			func(d *registry.Declaration) { d.Lease = duration(15 * time.Second) }, "/lease"},
		"permanent_statuses": {
			func(d *registry.Declaration) { d.PermanentStatuses = []int{599} },
			func(d *registry.Declaration) { d.PermanentStatuses = []int{600} }, "/permanent_statuses/0"},
		"headers": {
			func(d *registry.Declaration) { d.Headers = many(50, "v") },
			func(d *registry.Declaration) { d.Headers = many(51, "v") }, "/headers"},
		"length of a header's value": {
			func(d *registry.Declaration) { d.Headers = one("a", text("v", 4096)) },
			func(d *registry.Declaration) { d.Headers = one("a", text("v", 4097)) }, "/headers/a"},
		"length of a header's name": {
			func(d *registry.Declaration) { d.Headers = one(text("a", 128), "v") },
			func(d *registry.Declaration) { d.Headers = one(text("a", 129), "v") }, "/headers/" + text("a", 129)},
		"empty header's name": {
			func(d *registry.Declaration) { d.Headers = one("!#$%&'*+-.^_`|~9", "") },
			func(d *registry.Declaration) { d.Headers = one("", "v") }, "/headers/"},
		"space around a header's value": {
			func(d *registry.Declaration) { d.Headers = one("a", "v v") },
			func(d *registry.Declaration) { d.Headers = one("a", " v") }, "/headers/a"},
		"ASCII of a header's value": {
			func(d *registry.Declaration) { d.Headers = one("a", "!~") },
			func(d *registry.Declaration) { d.Headers = one("a", "é") }, "/headers/a"},
		"metadata": {
			func(d *registry.Declaration) { d.Metadata = many(50, "v") },
			func(d *registry.Declaration) { d.Metadata = many(51, "v") }, "/metadata"},
		"key of the metadata": {
			func(d *registry.Declaration) { d.Metadata = one(text("k", 128), "") },
			func(d *registry.Declaration) { d.Metadata = one(text("k", 129), "") }, "/metadata/" + text("k", 129)},
		"value of the metadata": {
			func(d *registry.Declaration) { d.Metadata = one("a/b", text("v", 1024)) },
			func(d *registry.Declaration) { d.Metadata = one("a/b", text("v", 1025)) }, "/metadata/a~1b"},
		"secret": {
			func(d *registry.Declaration) { d.Secret = new(event.Secret(make([]byte, 24)).Reveal()) },
			func(d *registry.Declaration) { d.Secret = new(event.Secret(make([]byte, 23)).Reveal()) }, "/secret"},
	} {
		if got := flawsOf(t, c.good); got != nil {
			t.Errorf("%s, within the bound: %v", name, got)
		}
		if got := flawsOf(t, c.bad); !slices.Equal(got, []string{c.pointer}) {
			t.Errorf("%s, past the bound: got %v, want %s", name, got, c.pointer)
		}
	}
}

func TestEveryKnownWordIsTaken(t *testing.T) {
	for _, format := range []event.Format{"", event.FormatStandard, event.FormatCloudEvents, event.FormatCloudEventsBinary, event.FormatRaw} {
		if got := flawsOf(t, func(d *registry.Declaration) { d.Mode, d.Site, d.Format = "durable", "relay", format }); got != nil {
			t.Errorf("%q: %v", format, got)
		}
	}
}

// A header that the sender sets, that frames the request, or that makes net/http send
// it again (P6) is refused in every spelling.
func TestReservedHeadersAreRefusedInEverySpelling(t *testing.T) {
	for _, name := range []string{
		"Host", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Connection", "Keep-Alive",
		"TE", "Trailer", "Upgrade", "Expect", "User-Agent", "Accept-Encoding", "Traceparent", "Tracestate", "Baggage",
		"Idempotency-Key", "X-Idempotency-Key", "Proxy-Authorization", "Webhook-Id", "Webhook-Signature", "Eventsvc-Attempt", "Ce-Id",
	} {
		for _, spelled := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			got := flawsOf(t, func(d *registry.Declaration) { d.Headers = one(spelled, "v") })
			if !slices.Equal(got, []string{"/headers/" + spelled}) {
				t.Errorf("%s: %v", spelled, got)
			}
		}
	}
	for _, name := range []string{"Authorization", "X-Webhook", "Cex", "Accept", "X-Host"} {
		if got := flawsOf(t, func(d *registry.Declaration) { d.Headers = one(name, "v") }); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What net/http would refuse to send, or a receiver would read as another header.
func TestNoByteOfAHeaderCanForgeAnother(t *testing.T) {
	for b := range 256 {
		value := "a" + string([]byte{byte(b)}) + "a"
		good := b == '\t' || b >= ' ' && b <= '~'
		if got := flawsOf(t, func(d *registry.Declaration) { d.Headers = one("X-A", value) }); (got == nil) != good {
			t.Errorf("byte %#x in a value: %v", b, got)
		}
	}
	for _, name := range []string{"a:", "a b", "a\r\n", "é", "a\x00", "(a)", "a\t"} {
		if got := flawsOf(t, func(d *registry.Declaration) { d.Headers = one(name, "v") }); len(got) != 1 {
			t.Errorf("name %q: %v", name, got)
		}
	}
}

// one is a single entry.
func one(name, value string) map[string]string { return map[string]string{name: value} }

func TestEveryFlawIsToldAtOnce(t *testing.T) {
	got := flawsOf(t, func(d *registry.Declaration) {
		d.Events = []event.Pattern{"a..b", "ok", "*.c"}
		d.URL = "http://denied"
		d.Secret = new("short")
		d.Mode = "later"
		d.MaxAttempts = ptr(0)
		d.Timeout = duration(0)
		d.Lease = duration(0)
		d.CountDeferrals = ptr(false)
		d.PermanentStatuses = []int{200}
		d.Headers = one("Host", "v")
		d.Metadata = one("k", "\x00")
	})
	want := []string{"/events/0", "/events/2", "/url", "/secret", "/mode", "/timeout", "/lease", "/count_deferrals",
		"/max_attempts", "/permanent_statuses/0", "/headers/Host", "/metadata/k"}
	if !slices.Equal(got, want) {
		t.Errorf("\ngot  %v\nwant %v", got, want)
	}
}

func TestTheFlawOfALeaseNamesBothNumbers(t *testing.T) {
	d := declaration(func(d *registry.Declaration) {
		d.Timeout, d.Lease = duration(90*time.Second), duration(91*time.Second)
	})
	err := over(t, nil).Check(&d)
	if err == nil || !strings.Contains(err.Error(), "1m30s") || !strings.Contains(err.Error(), "1m31s") {
		t.Errorf("got %v", err)
	}
}

func TestAFlawNeverRepeatsASecret(t *testing.T) {
	d := declaration(func(d *registry.Declaration) { d.Secret = new("whsec_almostasecret") })
	if err := over(t, nil).Check(&d); err == nil || strings.Contains(err.Error(), "almostasecret") {
		t.Errorf("got %v", err)
	}
}
