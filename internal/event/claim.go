package event

import "time"

// WorkerID is the number of one worker process, drawn anew at each start. Two
// processes never share one, whatever name they were given, so neither can act
// under the other's claims.
type WorkerID int32

// Fence is the proof of a claim: what a row must still hold for its worker to
// settle, extend or release it. ClaimedAt comes from the database at full
// precision and is never rebuilt from a Go clock.
type Fence struct {
	Delivery  ID
	ClaimedAt time.Time
}

// Claim is the time-limited right of one worker to settle one delivery, with
// everything that an attempt needs.
type Claim struct {
	Fence
	Event       Event
	TargetID    TargetID
	To          *Target // who is told: filled in by the relay from the registry
	Attempts    int     // spent before this one
	MaxAttempts int
	Sending     int
	Format      Format // as it was when the event was fired
	LeaseUntil  time.Time
	AvailableAt time.Time
	DueAt       time.Time
	OwedSince   time.Time
	// Test says that nothing is owed: somebody wants to see what the target answers.
	Test bool
}

// Attempt is the number of the attempt this claim allows: 1 for the first.
func (c *Claim) Attempt() int { return c.Attempts + 1 }

// webhookID tells a test from a delivery by its prefix.
func (c *Claim) webhookID() string {
	if c.Test {
		return c.Delivery.Text(TestPrefix)
	}
	return WebhookID(c.Delivery, c.Sending)
}

// Lease is how long the claim was given for, by the database's clock.
func (c *Claim) Lease() time.Duration { return c.LeaseUntil.Sub(c.ClaimedAt) }

// Context is the attempt as hooks and receivers are told of it. To must be set.
func (c *Claim) Context() Context {
	correlation := c.Event.CorrelationID
	if correlation == "" {
		correlation = c.Event.ID.Text(EventPrefix)
	}
	return Context{
		DeliveryID:    c.Delivery,
		EventID:       c.Event.ID,
		Type:          c.Event.Type,
		Tenant:        c.Event.Tenant,
		CorrelationID: correlation,
		Receiver:      c.To.Receiver.Key,
		Target:        c.To.Name,
		Lane:          c.To.Receiver.Lane,
		Attempt:       c.Attempt(),
		MaxAttempts:   c.MaxAttempts,
		WebhookID:     c.webhookID(),
		Test:          c.Test,
		DueAt:         c.DueAt,
		TraceParent:   c.Event.TraceParent,
	}
}
