package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// drainTimeout bounds a drain: a receiver that hangs must not hang a test for ever.
const drainTimeout = time.Minute

// draining is the body of a drain.
type draining struct {
	Now *time.Time `json:"now,omitempty"`
}

// mountTesting mounts what only a service in test mode has. Elsewhere these addresses
// are 404 like any other.
func (s *server) mountTesting(router chi.Router) {
	if s.Look == nil {
		return
	}
	router.Post("/v1/testing/drain", s.guarded(s.drain))
	router.Post("/v1/testing/reset", s.guarded(s.reset))
}

// guarded asks for the API key, and answers what a handler returns.
func (s *server) guarded(do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limited, cancel := context.WithTimeout(r.Context(), answerTimeout)
		who, p := s.admit(limited, r.Header.Get("Authorization"), administers, heading(w))
		cancel()
		if p != nil {
			p.write(w, r)
			return
		}
		r = r.WithContext(from(r.Context(), who))
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		answer, err := do(r)
		if err != nil {
			s.explain(r.Context(), err).(*Problem).write(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := jsonFormat.Marshal(w, answer); err != nil {
			s.log.WarnContext(r.Context(), "an answer could not be written", "err", err)
		}
	}
}

func (s *server) drain(r *http.Request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, tooLargeFor(maxBody)
	}
	var d draining
	if len(body) > 0 {
		if err := decode(body, &d); err != nil {
			return nil, err
		}
	}
	if d.Now == nil {
		d.Now = &time.Time{}
	}
	ctx, cancel := context.WithTimeout(r.Context(), drainTimeout)
	defer cancel()
	rest := func() {}
	defer func() { rest() }()
	begin := func() error {
		rest = s.Hurry()
		return s.Desk.MatchAll(ctx)
	}
	return s.Ledger.Drain(ctx, *d.Now, begin, s.Look)
}

func (s *server) reset(r *http.Request) (any, error) {
	ctx := r.Context()
	err := s.Registry.Erase(ctx, func(tx pgx.Tx) error {
		if err := ledger.Erase(ctx, tx); err != nil {
			return err
		}
		return fire.Erase(ctx, tx)
	})
	return struct{}{}, err
}
