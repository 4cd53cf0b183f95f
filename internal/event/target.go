package event

import "strings"

// TargetID is the number of one address: a target of a fan-out receiver, or the one
// implicit target of any other receiver. It is the unit that is never held up by
// another: claims, limits and pauses are per target.
type TargetID int32

// LaneID is the number of a lane.
type LaneID int32

// DefaultLane is the lane of receivers that name none.
const DefaultLane = "default"

// Pulled reports whether workers elsewhere claim what the target is owed: there is no
// address that anybody here could send it to.
func (t *Target) Pulled() bool { return t.Receiver.Task && t.URL == "" && t.Receiver.Function == "" }

// Wants reports whether an event of that type and tenant is owed to the target. Tenants
// fail closed: a target of one tenant is never owed an event of another, or of none. The
// service's own events go to no target of a fan-out receiver, as those are strangers'.
func (t *Target) Wants(eventType, tenant string) bool {
	switch {
	case t.Deleted || t.Disabled || t.Receiver.FanOut != (t.Name != ""):
		return false
	case t.Receiver.FanOut && strings.HasPrefix(eventType, ReservedTypes):
		return false
	case t.Tenant != "" && t.Tenant != tenant:
		return false
	case !t.Receiver.Wants(eventType, tenant):
		return false
	}
	if t.Patterns == nil {
		return true
	}
	for _, p := range t.Patterns {
		if p.Matches(eventType) {
			return true
		}
	}
	return false
}
