package event

import (
	"testing"
	"time"
)

func aClaim() *Claim {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return &Claim{
		Fence:       Fence{Delivery: NewID(now), ClaimedAt: now},
		Event:       Event{ID: NewID(now), Type: "order.placed", Facts: Facts{Tenant: "t"}, TraceParent: "00-a-b-01"},
		To:          &Target{Name: "eu", Receiver: &Receiver{Key: "shop", Lane: "mail"}},
		Attempts:    2,
		MaxAttempts: 5,
		Sending:     2,
		LeaseUntil:  now.Add(30 * time.Second),
		DueAt:       now.Add(-time.Minute),
	}
}

func TestHooksAndReceiversAreToldWhatTheRowsSay(t *testing.T) {
	c := aClaim()
	want := Context{
		DeliveryID:    c.Delivery,
		EventID:       c.Event.ID,
		Type:          "order.placed",
		Tenant:        "t",
		CorrelationID: c.Event.ID.Text(EventPrefix),
		Receiver:      "shop",
		Target:        "eu",
		Lane:          "mail",
		Attempt:       3,
		MaxAttempts:   5,
		WebhookID:     c.Delivery.Text(DeliveryPrefix) + "_2",
		DueAt:         c.DueAt,
		TraceParent:   "00-a-b-01",
	}
	if got := c.Context(); got != want {
		t.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
	if c.Lease() != 30*time.Second {
		t.Errorf("leased for %v", c.Lease())
	}
}

func TestAGivenCorrelationIsKept(t *testing.T) {
	c := aClaim()
	c.Event.CorrelationID = "checkout-7"
	if got := c.Context().CorrelationID; got != "checkout-7" {
		t.Errorf("got %q", got)
	}
}

// P7: the webhook-id is the same on every attempt.
func TestTheWebhookIDIsTheSameOnEveryAttempt(t *testing.T) {
	c := aClaim()
	first := c.Context().WebhookID
	for c.Attempts = range 20 {
		if got := c.Context().WebhookID; got != first {
			t.Errorf("attempt %d has %s, the first had %s", c.Attempt(), got, first)
		}
	}
}

func TestAnEventOccurredWhenItsProducerSaysElseWhenItWasRecorded(t *testing.T) {
	recorded := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := Event{RecordedAt: recorded}
	if got := e.Occurred(); !got.Equal(recorded) {
		t.Errorf("without a time of its own: %v", got)
	}
	e.OccurredAt = recorded.Add(-time.Hour)
	if got := e.Occurred(); !got.Equal(e.OccurredAt) {
		t.Errorf("with a time of its own: %v", got)
	}
}
