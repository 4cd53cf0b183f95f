package api

import (
	"context"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/eventsvc/eventsvc/internal/access"
)

type callerKey struct{}

// from is a context of a call that [server.admit] let in.
func from(ctx context.Context, who access.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// caller is who makes the call. Every call that was let in has one.
func caller(ctx context.Context) access.Caller {
	return ctx.Value(callerKey{}).(access.Caller)
}

// admit is the one way in: every call of the API goes through it before its body is
// read. It asks who calls, then whether they may, then whether it is too often. While the
// database is away nobody is refused for want of a key's row: that is 503, and never 401 or
// 403.
func (s *server) admit(ctx context.Context, authorization string, needs need, header func(name, value string)) (access.Caller, *Problem) {
	who, err := s.Gate.Authenticate(ctx, authorization)
	if err != nil {
		return access.Caller{}, s.explain(ctx, err).(*Problem)
	}
	if p := authorize(&who, needs); p != nil {
		return access.Caller{}, p
	}
	return who, s.pacers.pace(&who, header)
}

// authorize is why a caller may not do what needs that, or nil.
func authorize(who *access.Caller, needs need) *Problem {
	switch {
	case !who.May(needs.scope):
		return problem("forbidden", fmt.Sprintf("this API key lacks the scope %s", needs.scope))
	case needs.whole && who.Tenant != "":
		return problem("forbidden", "this is about the whole service, and this API key is bound to a tenant")
	}
	return nil
}

// authenticate lets nobody in before the body is read.
func (s *server) authenticate(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		// An operation without a need is a mistake of ours, which must not open a door.
		needs, said := ctx.Operation().Metadata[needMetadata].(need)
		if !said {
			needs = administers
		}
		who, p := s.admit(ctx.Context(), ctx.Header("Authorization"), needs, ctx.SetHeader)
		if p != nil {
			turnAway(ctx)
			writeProblem(api, ctx, p)
			return
		}
		next(huma.WithContext(ctx, from(ctx.Context(), who)))
	}
}

// turnAway has the server answer without the body, which it would otherwise read some
// of, for as long as that takes: a stranger's connection is closed.
func turnAway(ctx huma.Context) {
	if raw, _ := humachi.Unwrap(ctx); raw.ContentLength == 0 {
		return
	}
	ctx.SetHeader("Connection", "close")
	// Where it cannot be set, the server reads a quarter of a megabyte at most.
	_ = ctx.SetReadDeadline(time.Now())
}
