package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	body, err := json.Marshal(struct {
		Type      string      `json:"type"`
		Timestamp time.Time   `json:"timestamp"`
		Data      failureData `json:"data"`
	}{failureType(n.Status), time.Now().UTC(), failureData{
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
	status, err := c.notice(ctx, to.Receiver.OnFailure, n.WebhookID+"_failure_"+strconv.Itoa(n.Attempt), body, to.Signers, to.Keys)
	if err != nil {
		return err
	}
	if status < 200 || status > 299 {
		return fmt.Errorf("it %s", answered(status))
	}
	return nil
}

// notice makes one request of the service's own, in the format standard and signed as of
// now, and answers with the status that came back.
func (c *Courier) notice(ctx context.Context, url, id string, body []byte, signers []*event.Signer, keys []event.SigningKey) (status int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now := time.Now()
	seen := &sighting{began: now}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return 0, withoutURL(err)
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Content-Type", contentType(event.FormatStandard))
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", stamp)
	req.Header.Set("Webhook-Signature", sign(signers, keys, id, stamp, body))
	resp, err := c.wire.send(req, body, seen)
	if err != nil {
		seen.leave(false)
		_, reason := explain(ctx, err, 0)
		return 0, errors.New(reason)
	}
	seen.hear(resp, cancel, func() bool { _, whole := testimony(resp, resp.Body); return whole })
	if odd, found := oddStatus(resp); found {
		return 0, errors.New(odd.Reason)
	}
	return resp.StatusCode, nil
}
