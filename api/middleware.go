package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"golang.org/x/net/publicsuffix"

	"github.com/eventsvc/eventsvc/internal/spelling"
)

type requestIDKey struct{}

// withRequestID names the request, in its answer and its log lines. A caller's own
// name is not taken over: it could be made to look like another request's.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var random [9]byte
		rand.Read(random[:])
		id := "req_" + hex.EncodeToString(random[:])
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
	})
}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

func stampRequestID(ctx huma.Context, _ string, v any) (any, error) {
	if p, ok := v.(*Problem); ok {
		p.RequestID = requestID(ctx.Context())
	}
	return v, nil
}

// recoverPanics answers a panic like any other failure of ours, and logs it whole.
func (s *server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler {
				panic(cause)
			}
			s.log.ErrorContext(r.Context(), "a request panicked", "request_id", requestID(r.Context()), "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			internal().write(w, r)
		}()
		next.ServeHTTP(w, r)
	})
}

// plainly has browsers take every answer for what it says it is, show none within
// another's page, and tell nobody where they were. What the API says is for its caller
// alone, secrets that are shown once among it: it is kept nowhere on the way.
func plainly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		maps.Copy(h, plainHeaders)
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			h["Cache-Control"] = noStore
		}
		next.ServeHTTP(w, r)
	})
}

// What every answer says, or every one of the API: lists of one that nobody adds to.
var (
	plainHeaders = http.Header{"X-Content-Type-Options": {"nosniff"}, "X-Frame-Options": {"DENY"}, "Referrer-Policy": {"no-referrer"}}
	noStore      = []string{"no-store"}
)

// refuseOtherOrigins keeps pages of other sites, open in a browser on this machine,
// from calling an API that asks for no key.
func refuseOtherOrigins(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem("forbidden", "a page of another origin may not call this API").write(w, r)
	}))
	return protection.Handler(next)
}

// refuseOtherNames keeps a page whose name was made to lead here out of an API that asks
// for no key: to the browser its calls are those of its own origin, and only the name that
// they ask for gives them away. An address, and a name that nobody can have from a
// registry, are not such a page's.
func refuseOtherNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := hostName(r.Host); registrable(name) {
			problem("forbidden", fmt.Sprintf("an API without keys does not answer to %s, which can be any site's name; call it by its address or as localhost, or have it ask for keys", clip(name))).write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostName is the name or address of a Host header, without a port.
func hostName(host string) string {
	u := url.URL{Host: host}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// registrable reports whether a name is below a suffix of the public DNS. Names of one
// label, and those below localhost, internal, local or a cluster's own domain, are not.
func registrable(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
		return false
	}
	suffix, public := publicsuffix.PublicSuffix(name)
	return public || strings.Contains(suffix, ".")
}

// refuseOddText refuses paths and queries that hold what no text in the tables can: NUL,
// or bytes that are no UTF-8.
func refuseOddText(next http.Handler) http.Handler {
	odd := func(s string) bool { return !utf8.ValidString(s) || strings.ContainsRune(s, 0) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, err := url.QueryUnescape(r.URL.RawQuery)
		if odd(r.URL.Path) || err == nil && odd(query) {
			problem("invalid-parameter", "the address must be valid UTF-8 without NUL").write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseUnknownQuery refuses query parameters that the operation does not know, and
// those given twice: either would be ignored in silence.
func refuseUnknownQuery(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		u := ctx.URL()
		if u.RawQuery == "" {
			next(ctx)
			return
		}
		var known []string
		for _, p := range ctx.Operation().Parameters {
			if p.In == "query" {
				known = append(known, p.Name)
			}
		}
		for name, values := range u.Query() {
			switch {
			case !slices.Contains(known, name):
				writeProblem(api, ctx, problem("invalid-parameter", fmt.Sprintf("query parameter %q is not known here%s", clip(name), spelling.DidYouMean(name, known))))
				return
			case len(values) > 1:
				writeProblem(api, ctx, problem("invalid-parameter", fmt.Sprintf("query parameter %q is given %d times; give it once", name, len(values))))
				return
			}
		}
		next(ctx)
	}
}

// bounded gives every operation a deadline, so that a database that does not answer
// is said to be unavailable, and as much more as its answer may wait.
func bounded(ctx huma.Context, next func(huma.Context)) {
	within := answerTimeout
	if wait, ok := ctx.Operation().Metadata[waitMetadata].(func(http.Header) time.Duration); ok {
		raw, _ := humachi.Unwrap(ctx)
		within += wait(raw.Header)
	}
	limited, cancel := context.WithTimeout(ctx.Context(), within)
	defer cancel()
	next(huma.WithContext(ctx, limited))
}

// waitMetadata is where an operation whose answer may wait says for how long at most, by the
// headers of a call.
const waitMetadata = "wait"

// clip bounds what is repeated of a caller's own text.
func clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}

func writeProblem(api huma.API, ctx huma.Context, p *Problem) {
	for name, values := range p.header {
		for _, v := range values {
			ctx.SetHeader(name, v)
		}
	}
	huma.WriteErr(api, ctx, p.Status, p.Detail, p)
}

// methodNotAllowed says which methods would do.
func methodNotAllowed(routes chi.Routes, r *http.Request) *Problem {
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		if routes.Match(chi.NewRouteContext(), method, r.URL.Path) {
			allowed = append(allowed, method)
		}
	}
	return problem("method-not-allowed", fmt.Sprintf("%s is not allowed on %s; allowed: %s", clip(r.Method), r.URL.Path, strings.Join(allowed, ", "))).
		with("Allow", strings.Join(allowed, ", "))
}
