package registry_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/registry"
)

var defaults = registry.Defaults{MaxAttempts: 20, Curve: event.Curve{Base: 2 * time.Second, Cap: time.Hour}, MaxRetryAfter: 24 * time.Hour}

// The contract's table of a receiver's fields.
func TestWhatIsNotDeclaredIsTheContractsDefault(t *testing.T) {
	d := declaration()
	want := &event.Receiver{
		Key:               "k",
		Mode:              event.Durable,
		Lane:              "default",
		Patterns:          []event.Pattern{"*"},
		Terms:             event.Terms{Curve: defaults.Curve, CountDeferrals: true, MaxRetryAfter: 24 * time.Hour},
		MaxAttempts:       20,
		Timeout:           10 * time.Second,
		Lease:             30 * time.Second,
		Format:            event.FormatStandard,
		PermanentStatuses: []int{410},
		MaxConcurrency:    32,
		Trace:             true,
		PauseScope:        event.PauseLane,
	}
	if got := d.Resolve("k", defaults); !reflect.DeepEqual(got, want) {
		t.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
}

func TestWhatIsDeclaredIsUsedAsItIs(t *testing.T) {
	d := registry.Declaration{
		Events: []event.Pattern{"a.*"}, Lane: "mail", Tenant: "t",
		MaxAttempts: ptr(3), BackoffBase: duration(time.Second), BackoffCap: duration(time.Minute),
		GiveUpAfter: duration(time.Hour), CountDeferrals: ptr(false), Due: duration(2 * time.Hour),
		Timeout: duration(time.Minute), Lease: duration(3 * time.Minute),
		Format: event.FormatRaw, Headers: one("x", "y"), PermanentStatuses: []int{404},
		MaxConcurrency: ptr(7), Trace: ptr(false), PauseScope: event.PauseTarget,
		OnFailure: &registry.OnFailure{URL: "https://shop.example.com/failures"}, RateLimit: &event.Rate{Count: 300, Per: time.Minute}, Eager: true,
	}
	want := &event.Receiver{
		Key: "k", Mode: event.Durable, Lane: "mail", Patterns: []event.Pattern{"a.*"}, Tenant: "t",
		Terms:       event.Terms{Curve: event.Curve{Base: time.Second, Cap: time.Minute}, GiveUpAfter: time.Hour, MaxRetryAfter: 24 * time.Hour},
		MaxAttempts: 3, Due: 2 * time.Hour, Timeout: time.Minute, Lease: 3 * time.Minute,
		Format: event.FormatRaw, Headers: one("x", "y"), PermanentStatuses: []int{404}, MaxConcurrency: 7, RateLimit: event.Rate{Count: 300, Per: time.Minute}, Eager: true,
		PauseScope: event.PauseTarget, OnFailure: "https://shop.example.com/failures",
	}
	if got := d.Resolve("k", defaults); !reflect.DeepEqual(got, want) {
		t.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
}

// The process's lease is for receivers whose attempts fit into it.
func TestTheProcessesLeaseIsUsedOnlyWhereItCoversTheTimeout(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		15 * time.Second:   30 * time.Second,
		15*time.Second + 1: 15*time.Second + 1,
		2 * time.Minute:    2 * time.Minute,
		0:                  30 * time.Second,
	} {
		d, def := declaration(), defaults
		def.Lease = lease
		if got := d.Resolve("k", def).Lease; got != want {
			t.Errorf("the process's lease is %v: got %v, want %v", lease, got, want)
		}
	}
}
