package access

import "slices"

// Scope is one thing that a key may be good for. Every operation of the API asks for one.
type Scope string

// The scopes.
const (
	EventsWrite     Scope = "events:write"     // fire
	Read            Scope = "read"             // look at everything but keys and the audit
	ReceiversWrite  Scope = "receivers:write"  // declare receivers and event types
	DeliveriesWrite Scope = "deliveries:write" // requeue, cancel, deliver, replay
	Admin           Scope = "admin"            // keys, audit, lanes, prune; it holds all the others
)

// Scopes are all of them.
var Scopes = []Scope{EventsWrite, Read, ReceiversWrite, DeliveriesWrite, Admin}

// Caller is who makes a call.
type Caller struct {
	// Key is the caller's key; its zero value is the operator's own, which is good for
	// everything.
	Key
	operator bool
}

// Operator is whoever holds the key of the environment, or calls where no keys are
// asked for.
func Operator(name string) Caller { return Caller{Key: Key{Name: name}, operator: true} }

// May reports whether the caller has a scope. Who may issue keys could issue one with
// any scope, so admin holds them all.
func (c *Caller) May(s Scope) bool {
	return c.operator || slices.Contains(c.Scopes, s) || slices.Contains(c.Scopes, Admin)
}
