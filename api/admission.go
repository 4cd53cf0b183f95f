package api

import (
	"context"

	"github.com/eventsvc/eventsvc/internal/access"
)

type callerKey struct{}

// caller is who makes the call. Every call that [server.admit] let in has one.
func caller(ctx context.Context) access.Caller {
	return ctx.Value(callerKey{}).(access.Caller)
}

// admit is the one way in: every call of the API goes through it before its body is
// read. While the database is away nobody is refused for want of a key's row: that is
// 503, and never 401 or 403.
func (s *server) admit(ctx context.Context, authorization string) (context.Context, *Problem) {
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	who, err := s.Gate.Authenticate(limited, authorization)
	if err != nil {
		return nil, s.explain(ctx, err).(*Problem)
	}
	return context.WithValue(ctx, callerKey{}, who), nil
}
