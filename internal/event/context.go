package event

import "time"

// Context is what one durable attempt is about: what hooks are told and what the
// receiver sees in its headers. It is a copy, read off the rows.
type Context struct {
	DeliveryID    ID
	EventID       ID
	Type          string
	Tenant        string
	CorrelationID string
	Receiver      string
	Target        string // "" where the receiver has no targets
	Lane          string
	Attempt       int // 1 for the first
	MaxAttempts   int
	WebhookID     string
	DueAt         time.Time // zero where the delivery is not scheduled
	TraceParent   string    // of the event's creation, or ""
	Test          bool      // nothing is owed: somebody wants to see what the target answers
}
