package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
)

// maxPreferredWait is the longest that a caller may have its answer wait.
const maxPreferredWait = 30 * time.Second

// preferredWait is how long a caller would have the answer wait (RFC 7240, section 4.3),
// or 0. A preference that cannot be read, or kept, is as if it were not there, and of
// several the first alone is looked at.
func preferredWait(header http.Header) time.Duration {
	for preference := range preferences(strings.Join(header.Values("Prefer"), ",")) {
		preference, _, _ = strings.Cut(preference, ";")
		name, value, _ := strings.Cut(preference, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
			value = value[1 : n-1]
		}
		seconds, err := strconv.ParseUint(value, 10, 31)
		if wait := time.Duration(seconds) * time.Second; err == nil && wait <= maxPreferredWait {
			return wait
		}
		return 0
	}
	return 0
}

// preferences are the members of a list, whose commas may stand in quotes too.
func preferences(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		from, quoted := 0, false
		for i := 0; i < len(list); i++ {
			switch {
			case list[i] == '\\' && quoted:
				i++
			case list[i] == '"':
				quoted = !quoted
			case list[i] == ',' && !quoted:
				if !yield(list[from:i]) {
					return
				}
				from = i + 1
			}
		}
		yield(list[from:])
	}
}

// awaited is what a fire came to once the first attempts at its eager receivers were
// recorded, or the caller has waited long enough: each delivery with its status as it is
// then. False: that cannot be told, and the answer is the one without a wait, since the
// event is stored whatever is known of its deliveries.
func (s *server) awaited(ctx context.Context, r fire.Receipt, wait time.Duration) (receipt, bool) {
	var eager []event.ID
	for _, o := range r.Owed {
		if o.Eager {
			eager = append(eager, o.ID)
		}
	}
	if len(eager) > 0 {
		limited, cancel := context.WithTimeout(ctx, wait)
		s.Await(limited, r.Event.ID, eager)
		cancel()
	}
	shown := showReceipt(ctx, r)
	if len(r.Owed) == 0 {
		return shown, true
	}
	now, err := s.Ledger.OfEvent(ctx, r.Event.ID)
	if err != nil {
		s.log.DebugContext(ctx, "what became of an event's deliveries is not known; its fire is answered as without a wait", "err", err)
		return shown, false
	}
	status := make(map[event.ID]event.Status, len(now))
	for i := range now {
		status[now[i].ID] = now[i].Status
	}
	for i, o := range r.Owed {
		var known bool
		if shown.Deliveries[i].Status, known = status[o.ID]; !known { // pruned already
			return showReceipt(ctx, r), false
		}
	}
	return shown, true
}
