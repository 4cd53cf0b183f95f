package registry

import (
	"fmt"

	"github.com/eventsvc/eventsvc/internal/event"
)

// checkMode refuses what a receiver without deliveries cannot have: they alone are waited
// for, counted, tried again and handed on.
func (d *Declaration) checkMode(flaws *event.Flaws) {
	if mode := d.mode(); mode != event.OnCommit && mode != event.Inline {
		return // durable, or none that there is
	}
	one := "url"
	if d.mode() == event.Inline {
		one = "url or function"
	}
	for _, f := range []struct {
		pointer string
		given   bool
	}{
		{"/function", d.Function != "" && d.mode() != event.Inline}, {"/fan_out", d.FanOut}, {"/site", d.Site != ""}, {"/eager", d.Eager}, {"/lane", d.Lane != ""},
		{"/max_attempts", d.MaxAttempts != nil}, {"/backoff_base", d.BackoffBase != nil}, {"/backoff_cap", d.BackoffCap != nil},
		{"/give_up_after", d.GiveUpAfter != nil}, {"/count_deferrals", d.CountDeferrals != nil}, {"/due", d.Due != nil}, {"/lease", d.Lease != nil},
		{"/permanent_statuses", d.PermanentStatuses != nil}, {"/max_concurrency", d.MaxConcurrency != nil}, {"/rate_limit", d.RateLimit != nil},
		{"/pause_scope", d.PauseScope != ""}, {"/on_failure", d.OnFailure != nil},
	} {
		if f.given {
			flaws.Add(f.pointer, fmt.Sprintf("needs mode durable: a receiver with mode %s is one %s and has no deliveries; leave it out, or leave out mode", d.Mode, one))
		}
	}
}
