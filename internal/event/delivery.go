package event

import (
	"strconv"
	"time"
)

// Status is where a delivery stands.
type Status string

// Owed are Pending, Failed and Claimed; the others are terminal.
const (
	Pending   Status = "pending"   // owed, waiting for its available_at
	Claimed   Status = "claimed"   // leased by a worker
	Failed    Status = "failed"    // owed, and failed or deferred at least once
	Succeeded Status = "succeeded" // acknowledged
	Dead      Status = "dead"      // given up: budget spent, permanent verdict, deferred past its bound, undecodable, poison
	Orphaned  Status = "orphaned"  // its receiver is gone
	Cancelled Status = "cancelled" // withdrawn before it ran
)

// Statuses are all of them, in the order of a delivery's life.
var Statuses = []Status{Pending, Claimed, Failed, Succeeded, Dead, Orphaned, Cancelled}

// Terminal reports whether nothing more will happen by itself.
func (s Status) Terminal() bool {
	switch s {
	case Succeeded, Dead, Orphaned, Cancelled:
		return true
	}
	return false
}

// Delivery is the debt of one event to one receiver, or to one target of it.
type Delivery struct {
	ID          ID
	EventID     ID
	Type        string
	TargetID    TargetID
	Status      Status
	Attempts    int // spent so far
	MaxAttempts int
	Sending     int       // 1 at first; each replay of a succeeded delivery adds one
	AvailableAt time.Time // the earliest next attempt
	DueAt       time.Time // when scheduled work is due, or zero
	OwedSince   time.Time // when it became owed; a replay or requeue moves it, backoff never does
	ClaimedBy   string    // the worker's name, while claimed
	ClaimedAt   time.Time
	LeaseUntil  time.Time
	CreatedAt   time.Time
	CompletedAt time.Time // zero while owed
	// Last is what the newest attempt left, or nil before the first.
	Last *Attempt
}

// WebhookID is the id under which receivers see a delivery and recognise a repeat
// of it. It is the same on every attempt (P7); a replay of a delivery that had
// succeeded is meant to be seen again and so gets a suffix.
func WebhookID(delivery ID, sending int) string {
	id := delivery.Text(DeliveryPrefix)
	if sending <= 1 {
		return id
	}
	return id + "_" + strconv.Itoa(sending)
}
