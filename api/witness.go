package api

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// registry is the registry for changes of the caller's: each is noted in the audit with
// it, or is not made. What is another tenant's by then is not there.
func (s *server) registry(ctx context.Context) *registry.Registry {
	by := caller(ctx)
	return s.Registry.Before(func(ctx context.Context, tx pgx.Tx, changes []registry.Change) error {
		noted := make([]access.Change, len(changes))
		for i, c := range changes {
			if by.Tenant != "" && c.Tenant != by.Tenant {
				return registry.ErrNotFound
			}
			noted[i] = access.Change{Action: c.Action, Object: c.Object, Before: c.Before, After: c.After}
		}
		return access.Note(ctx, tx, by, noted...)
	})
}

// noted does what is no single transaction, such as an operation on many: it is noted
// before it is begun, with what was asked for, and what it came to is added. A dry run
// changes nothing and is not noted.
func noted[T any](ctx context.Context, s *server, dry bool, c access.Change, do func() (T, error)) (T, error) {
	if dry {
		return do()
	}
	id, err := s.Keys.Begin(ctx, caller(ctx), c)
	if err != nil {
		var none T
		return none, err
	}
	came, err := do()
	after := any(came)
	if err != nil {
		after = map[string]string{"refused": asProblem(s.explain(ctx, err)).Code}
	}
	// The caller may be gone by now, and what was done is to be told of all the same.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	if err := s.Keys.End(late, id, after); err != nil {
		s.log.WarnContext(ctx, "the audit does not say what a call came to", "note", id.Text(event.AuditPrefix), "err", err)
	}
	return came, err
}
