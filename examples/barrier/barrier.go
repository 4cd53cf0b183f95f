// Package barrier shows how a caller with a database of its own binds events to its change:
// prepare, change, commit; and a check's answer that no crash and no race can make wrong.
// barrier.sql makes the table that it needs.
package barrier

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Shop is a caller: its own database, and where eventsvc is.
type Shop struct {
	DB       *pgxpool.Pool
	Events   string // such as http://127.0.0.1:8080
	Key      string // an API key, or "" where none is needed
	CheckURL string // where Check is served
	Secret   string // whsec_..., one for all checks
}

// Prepare has the events of an order held, and answers the transaction's id. The same order
// again answers the same id.
func (s *Shop) Prepare(ctx context.Context, order int) (id string, err error) {
	body, err := json.Marshal(map[string]any{
		"prepare": true,
		"check":   map[string]string{"url": s.CheckURL, "secret": s.Secret},
		"events":  []any{map[string]any{"type": "order.placed", "data": map[string]int{"order": order}}},
	})
	if err != nil {
		return "", err
	}
	var answer struct {
		Transaction struct{ ID string }
	}
	err = s.post(ctx, "/v1/transactions", fmt.Sprint("order-", order), body, &answer)
	return answer.Transaction.ID, err
}

// Place makes the shop's own change, with the barrier's row in the same transaction. Where
// the check was answered with a rollback before, this fails, and nothing of it is written.
func (s *Shop) Place(ctx context.Context, id string, order int) error {
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES ($1)`, order); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO eventsvc_barrier (transaction_id, outcome) VALUES ($1, 'committed')`, id)
		return err
	})
}

// Commit says that the change was committed. It may be repeated, and if it is never
// reached, the check finds out.
func (s *Shop) Commit(ctx context.Context, id string) error {
	return s.post(ctx, "/v1/transactions/"+id+"/commit", "", nil, nil)
}

// Check answers what became of a change: 200, 409, or 425 while it is under way. Anything
// else, such as a 500, makes eventsvc ask again.
func (s *Shop) Check(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	signed, err := standardwebhooks.NewWebhook(s.Secret)
	if err == nil {
		err = signed.Verify(body, r.Header)
	}
	if err != nil {
		http.Error(w, "not signed by eventsvc", http.StatusUnauthorized)
		return
	}
	var question struct {
		Data struct {
			ID string `json:"transaction_id"`
		}
	}
	if json.Unmarshal(body, &question) != nil {
		http.Error(w, "no question", http.StatusBadRequest)
		return
	}
	status := http.StatusInternalServerError
	if err := s.DB.QueryRow(r.Context(), `SELECT eventsvc_barrier_ask($1)`, question.Data.ID).Scan(&status); err != nil {
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
}

func (s *Shop) post(ctx context.Context, path, key string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Events+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode > 299 {
		return fmt.Errorf("%s: %d %s", path, resp.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
