package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// checkType is the type of what the caller of a prepared transaction is asked.
const checkType = event.ReservedTypes + "transaction.check"

type questionData struct {
	Transaction string    `json:"transaction_id"`
	Key         string    `json:"idempotency_key"`
	Made        time.Time `json:"created_at"`
	Number      int       `json:"check"`
}

// Ask makes one request, signed like a webhook and under the same egress policy, and answers
// with the status that came back. What it means is the caller's.
func (c *Courier) Ask(ctx context.Context, q *event.Question) (status int, err error) {
	id := q.Transaction.Text(event.TxPrefix)
	body, err := json.Marshal(struct {
		Type      string       `json:"type"`
		Timestamp time.Time    `json:"timestamp"`
		Data      questionData `json:"data"`
	}{checkType, time.Now().UTC(), questionData{id, q.Key, q.Made.UTC(), q.Number}})
	if err != nil {
		return 0, fmt.Errorf("encode the question: %w", err)
	}
	if err := sendable(q.URL); err != nil {
		return 0, err
	}
	return c.notice(ctx, q.URL, id+"_check_"+strconv.Itoa(q.Number), body, []*event.Signer{q.Secret.Signer()}, nil)
}
