package function

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventsvc/eventsvc/internal/event"
)

// fact is the event as the function gets it: every member is there, null where nothing
// was said.
type fact struct {
	ID            string          `json:"id"`
	Type          string          `json:"type"`
	Data          json.RawMessage `json:"data"`
	Tenant        *string         `json:"tenant"`
	Subject       *string         `json:"subject"`
	Source        *string         `json:"source"`
	OccurredAt    *time.Time      `json:"occurred_at"`
	RecordedAt    time.Time       `json:"recorded_at"`
	Actor         json.RawMessage `json:"actor"`
	CorrelationID string          `json:"correlation_id"`
	CausationID   *string         `json:"causation_id"`
	Metadata      json.RawMessage `json:"metadata"`
}

// circumstance is the attempt as the function gets it.
type circumstance struct {
	DeliveryID  string     `json:"delivery_id"`
	Receiver    string     `json:"receiver"`
	Attempt     int        `json:"attempt"`
	MaxAttempts int        `json:"max_attempts"`
	DueAt       *time.Time `json:"due_at"`
	WebhookID   string     `json:"webhook_id"`
}

// arguments are what the function is called with. Actor and metadata are as they are
// stored, or nil.
func arguments(c *event.Claim, actor, metadata []byte) (of, about []byte, err error) {
	e, told := &c.Event, c.Context()
	of, err = json.Marshal(fact{
		ID: e.ID.Text(event.EventPrefix), Type: e.Type, Data: e.Data, Tenant: said(e.Tenant), Subject: said(e.Subject), Source: said(e.Source),
		OccurredAt: moment(e.OccurredAt), RecordedAt: e.RecordedAt.UTC(), Actor: actor, CorrelationID: told.CorrelationID,
		CausationID: said(e.CausationID), Metadata: metadata,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("encode the event: %w", err)
	}
	about, err = json.Marshal(circumstance{
		DeliveryID: c.Delivery.Text(event.DeliveryPrefix), Receiver: told.Receiver, Attempt: told.Attempt, MaxAttempts: told.MaxAttempts,
		DueAt: moment(c.DueAt), WebhookID: told.WebhookID,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("encode the context: %w", err)
	}
	return of, about, nil
}

func said(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Check says why no function can be called with what is stored, or nil: data that is no
// JSON, and strings that jsonb does not hold. Numbers are the database's to judge.
func (*Caller) Check(c *event.Claim) error {
	if len(c.Event.Data) == 0 {
		return errors.New("the event has no data")
	}
	// Lone surrogates are no UTF-8, which the decoder refuses as jsonb does.
	d := jsontext.NewDecoder(bytes.NewReader(c.Event.Data), jsontext.AllowDuplicateNames(true))
	for values := 0; ; {
		token, err := d.ReadToken()
		switch {
		case err == io.EOF && values == 1:
			return nil
		case err != nil:
			return fmt.Errorf("data is no JSON that jsonb holds: %w", err)
		case values == 1:
			return errors.New("data is more than one JSON value")
		case token.Kind() == '"' && strings.ContainsRune(token.String(), 0):
			return fmt.Errorf(`data holds \u0000 at %q, which jsonb does not`, d.StackPointer())
		}
		if d.StackDepth() == 0 {
			values++
		}
	}
}
