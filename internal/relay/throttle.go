package relay

import (
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// throttle is what this process knows of one destination's mood: a lane's, or a
// target's where that is the scope of its receiver's pauses.
//
// An uncounted deferral closes it until the moment that was asked for, by our own
// clock. Then one attempt at a time goes through, until something other than a
// deferral comes back. So a destination whose quota is gone costs one call a pause,
// and not one a delivery.
type throttle struct {
	until    time.Time // closed until then
	probing  bool      // one at a time
	inflight int
	held     []event.TargetID // passed over while there was no room
	timer    *time.Timer      // reopens it
}

const unlimited = 1 << 30

// room is how many more attempts it lets through.
func (t *throttle) room(now time.Time, most int) int {
	switch {
	case now.Before(t.until):
		most = 0
	case t.probing:
		most = min(most, 1)
	}
	return max(most-t.inflight, 0)
}

// closed reports whether it lets nothing through.
func (t *throttle) closed(now time.Time) bool { return now.Before(t.until) }

// heard notes what came back from an attempt: how long it asked to be left alone, or
// that it did not ask.
func (t *throttle) heard(pause time.Duration, now time.Time) {
	switch {
	case pause > 0:
		t.probing = true
		if until := now.Add(pause); until.After(t.until) {
			t.until = until
		}
	case !t.closed(now):
		// While it is closed, what comes back is of attempts that began before.
		t.probing = false
	}
}

// seat is an attempt's place: its target and the throttles it counts under. It is
// given when the claim is drawn, so that what was taken is what is given back, whatever
// is declared meanwhile.
type seat struct {
	target event.TargetID
	lane   *lane
	own    *throttle
}

// lane is what the attempts of one lane have in common.
type lane struct {
	name string
	throttle
	most   int       // attempts in flight
	wanted time.Time // when others last waited for a seat that one with claims kept would have passed on
}
