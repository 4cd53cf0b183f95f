package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	req, err := c.notice(ctx, to.Receiver.OnFailure, n.WebhookID+"_failure_"+strconv.Itoa(n.Attempt), body, to.Secrets, to.Keys)
	if err != nil {
		return fmt.Errorf("on_failure is no address: %w", err)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		_, reason := explain(ctx, err, 0)
		return fmt.Errorf("%s", reason)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it %s", answered(resp.StatusCode))
	}
	return nil
}

// notice is a request of the service's own, in the format standard, signed as of now.
func (c *Courier) notice(ctx context.Context, url, id string, body []byte, secrets []event.Secret, keys []event.SigningKey) (*http.Request, error) {
	req, err := http.NewRequestWithContext(countDials(ctx), http.MethodPost, url, io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return nil, withoutURL(err)
	}
	req.GetBody = nil
	req.ContentLength = int64(len(body))
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Content-Type", contentType(event.FormatStandard))
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", stamp)
	req.Header.Set("Webhook-Signature", sign(secrets, keys, id, stamp, body))
	return req, nil
}
