package registry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// rowless are the modes without deliveries.
var rowless = []event.Mode{event.OnCommit, event.Inline}

func TestAReceiverWithoutDeliveriesIsRefusedWhatShapesThem(t *testing.T) {
	for pointer, set := range map[string]func(*registry.Declaration){
		"/fan_out":            func(d *registry.Declaration) { d.URL, d.FanOut = "", true },
		"/site":               func(d *registry.Declaration) { d.Site = registry.SiteRelay },
		"/eager":              func(d *registry.Declaration) { d.Eager = true },
		"/lane":               func(d *registry.Declaration) { d.Lane = "default" },
		"/max_attempts":       func(d *registry.Declaration) { d.MaxAttempts = ptr(1) },
		"/backoff_base":       func(d *registry.Declaration) { d.BackoffBase = duration(1) },
		"/backoff_cap":        func(d *registry.Declaration) { d.BackoffCap = duration(1) },
		"/give_up_after":      func(d *registry.Declaration) { d.GiveUpAfter = duration(1) },
		"/count_deferrals":    func(d *registry.Declaration) { d.CountDeferrals = ptr(true) },
		"/due":                func(d *registry.Declaration) { d.Due = duration(1) },
		"/lease":              func(d *registry.Declaration) { d.Lease = duration(60_000_000_000) },
		"/permanent_statuses": func(d *registry.Declaration) { d.PermanentStatuses = []int{} },
		"/max_concurrency":    func(d *registry.Declaration) { d.MaxConcurrency = ptr(1) },
		"/rate_limit":         func(d *registry.Declaration) { d.RateLimit = &event.Rate{Count: 1, Per: 1_000_000_000} },
		"/pause_scope":        func(d *registry.Declaration) { d.PauseScope = event.PauseLane },
		"/on_failure":         func(d *registry.Declaration) { d.OnFailure = &registry.OnFailure{URL: "https://shop.example.com/"} },
	} {
		if got := flawsOf(t, set); got != nil {
			t.Errorf("%s, durable: %v", pointer, got)
		}
		for _, mode := range rowless {
			if got := flawsOf(t, set, func(d *registry.Declaration) { d.Mode = mode }); !slices.Equal(got, []string{pointer}) {
				t.Errorf("%s, %s: got %v", pointer, mode, got)
			}
		}
	}
	for _, mode := range rowless {
		whole := func(d *registry.Declaration) {
			d.Mode, d.Timeout, d.Format, d.Headers, d.Tenant, d.Filter = mode, duration(1), event.FormatRaw, many(1, "v"), "acme", "event.data.n > 1"
			d.Trace, d.Signatures, d.Description, d.Metadata = ptr(true), []event.Signature{event.SignV1}, "x", many(1, "v")
		}
		if got := flawsOf(t, whole); got != nil {
			t.Errorf("%s, what shapes a request: %v", mode, got)
		}
		d := declaration(function("app.f"), func(d *registry.Declaration) { d.Mode = mode })
		if err := calling(t, nil, "app").Check(&d); (err == nil) != (mode == event.Inline) {
			t.Errorf("%s with a function: %v", mode, err)
		}
	}
	inline := func(timeout time.Duration) func(*registry.Declaration) {
		return func(d *registry.Declaration) { d.Mode, d.Timeout = event.Inline, duration(timeout) }
	}
	if good, bad := flawsOf(t, inline(10*time.Second)), flawsOf(t, inline(10*time.Second+1)); good != nil || !slices.Equal(bad, []string{"/timeout"}) {
		t.Errorf("the longest that producers wait: %v, %v", good, bad)
	}
	if got := flawsOf(t, func(d *registry.Declaration) { d.Mode = "later" }); !slices.Contains(got, "/mode") {
		t.Errorf("a mode that is none: %v", got)
	}
}
