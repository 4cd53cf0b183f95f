package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// failureType is the type of what on_failure is told, by what the row is now.
func failureType(s event.Status) string { return event.ReservedTypes + "delivery." + string(s) }

// failureData is what on_failure is told of an attempt.
type failureData struct {
	DeliveryID string       `json:"delivery_id"`
	EventID    string       `json:"event_id"`
	Type       string       `json:"type"`
	Tenant     string       `json:"tenant,omitempty"`
	Receiver   string       `json:"receiver"`
	Target     string       `json:"target,omitempty"`
	Attempt    int          `json:"attempt"`
	Attempts   int          `json:"max_attempts"`
	Status     event.Status `json:"status"`
	Class      event.Class  `json:"class"`
	HTTPStatus int          `json:"http_status,omitempty"`
	Error      string       `json:"error"`
}

// Tell makes one request to a receiver's on_failure: the format standard, signed like a
// webhook with the target's secrets, under the same egress policy. Any answer but 2xx is
// an error.
func (c *Courier) Tell(ctx context.Context, to *event.Target, n *event.Notice) error {
	now := time.Now()
	body, err := json.Marshal(struct {
		Type      string      `json:"type"`
		Timestamp time.Time   `json:"timestamp"`
		Data      failureData `json:"data"`
	}{failureType(n.Status), now.UTC(), failureData{
		DeliveryID: n.DeliveryID.Text(event.DeliveryPrefix), EventID: n.EventID.Text(event.EventPrefix), Type: n.Type, Tenant: n.Tenant,
		Receiver: n.Receiver, Target: n.Target, Attempt: n.Attempt, Attempts: n.MaxAttempts, Status: n.Status, Class: n.Class,
		HTTPStatus: n.HTTPStatus, Error: n.Error,
	}})
	if err != nil {
		return fmt.Errorf("encode the notice: %w", err)
	}
	if err := sendable(to.Receiver.OnFailure); err != nil {
		return fmt.Errorf("on_failure cannot be told: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := &sighting{began: now}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, seen.trace(ctx)), http.MethodPost, to.Receiver.OnFailure, nil)
	if err != nil {
		return fmt.Errorf("on_failure is no address: %w", withoutURL(err))
	}
	id, stamp := n.WebhookID+"_failure_"+strconv.Itoa(n.Attempt), strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Content-Type", contentType(event.FormatStandard))
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", stamp)
	req.Header.Set("Webhook-Signature", sign(to.Secrets, to.Keys, id, stamp, body))
	resp, err := c.wire.send(req, body, seen)
	if err != nil {
		seen.leave(false)
		_, reason := explain(ctx, err, 0)
		return fmt.Errorf("%s", reason)
	}
	seen.hear(resp, cancel, func() bool { _, whole := testimony(resp); return whole })
	if odd, found := oddStatus(resp); found {
		return fmt.Errorf("%s", odd.Reason)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it %s", answered(resp.StatusCode))
	}
	return nil
}
