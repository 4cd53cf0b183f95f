package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// Problem is every answer that is not a success: RFC 9457, application/problem+json.
// Code is stable; the texts are for people. It never shows SQL, a path, a stack, what
// was posted, or a secret.
type Problem struct {
	_         struct{} `additionalProperties:"true"`
	Type      string   `json:"type" format:"uri-reference" doc:"Page about this kind of problem." example:"/problems/validation-failed"`
	Title     string   `json:"title" example:"The request breaks a rule"`
	Status    int      `json:"status" example:"422"`
	Detail    string   `json:"detail" doc:"What is wrong here and what would do."`
	Code      string   `json:"code" doc:"Stable name of the problem." example:"validation-failed"`
	RequestID string   `json:"request_id,omitempty" doc:"Names this request in the service's log."`
	Errors    []Fault  `json:"errors,omitempty" doc:"Each thing that is wrong with the body."`

	header http.Header
}

// Fault is one thing that is wrong with a body.
type Fault struct {
	Pointer string `json:"pointer" doc:"JSON pointer (RFC 6901) into the body." example:"/data"`
	Message string `json:"message"`
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders are what the answer carries beside its body.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType is RFC 9457's.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

func problem(code, detail string, faults ...Fault) *Problem {
	k := kinds[code]
	return &Problem{Type: "/problems/" + code, Title: k.title, Status: k.status, Detail: detail, Code: code, Errors: faults, header: http.Header{}}
}

func (p *Problem) with(name, value string) *Problem {
	p.header.Set(name, value)
	return p
}

func malformed(detail string) *Problem { return problem("malformed-json", detail) }

func invalid(flaws event.Flaws) *Problem {
	faults := make([]Fault, len(flaws))
	for i, f := range flaws {
		faults[i] = Fault(f)
	}
	detail := "the request breaks a rule"
	if len(faults) == 1 {
		detail = strings.TrimPrefix(faults[0].Pointer, "/") + " " + faults[0].Message
	}
	return problem("validation-failed", strings.TrimSpace(detail), faults...)
}

func notFound(what string) *Problem { return problem("not-found", what) }

// explain turns any error into a problem. Errors it does not know are logged and say
// nothing to strangers.
func (a *server) explain(ctx context.Context, err error) error {
	var p *Problem
	var flaws event.Flaws
	var quota fire.QuotaError
	var veto fire.VetoError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &flaws):
		return invalid(flaws)
	case errors.Is(err, access.ErrUnauthorized):
		return problem("unauthorized", "send a valid API key as: Authorization: Bearer <key>").with("WWW-Authenticate", `Bearer realm="eventsvc"`)
	case errors.Is(err, fire.ErrKeyReused):
		return problem("idempotency-key-reused", "this Idempotency-Key was used for an event with another body; use a new key for a new event")
	case errors.Is(err, fire.ErrKeyInUse):
		return problem("idempotency-key-in-use", "a request with this Idempotency-Key is still under way; ask again with the same key").with("Retry-After", "1")
	case errors.As(err, &veto):
		veto.Receiver = called(ctx, veto.Receiver)
		return problem("vetoed", veto.Error()+"; nothing was stored, and the same Idempotency-Key may be used again")
	case errors.As(err, &quota):
		return overQuota(quota)
	case errors.Is(err, fire.ErrTooWide):
		return invalid(event.Flaws{{Pointer: "/type", Message: err.Error()}})
	case errors.Is(err, fire.ErrUnknownType):
		return problem("unknown-event-type", "this event type is not declared, and EVENTSVC_STRICT_TYPES asks for it; declare it with PUT /v1/event-types/{type}")
	case errors.Is(err, registry.ErrNoType):
		return notFound("this event type is not declared")
	case errors.Is(err, fire.ErrNotFound):
		return notFound("there is no event of this id")
	case errors.Is(err, fire.ErrNoTransaction):
		return notFound("there is no transaction of this id")
	case errors.Is(err, ledger.ErrNotFound):
		return notFound("there is no delivery of this id")
	case errors.Is(err, access.ErrNotFound):
		return notFound("there is no API key of this id")
	case errors.Is(err, registry.ErrNotFound):
		return notFound("there is no receiver of this key")
	case errors.Is(err, registry.ErrChanged):
		return problem("precondition-failed", "it is not at the version that If-Match names; read it again")
	case errors.Is(err, registry.ErrKeyTaken):
		return problem("conflict", "another receiver has that key, or had it and is deleted: what is kept of it is under that key; choose another")
	case errors.Is(err, registry.ErrUnreadable):
		return problem("conflict", "what is stored of it cannot be read, so it cannot be changed in part; declare it whole with PUT")
	case errors.Is(err, registry.ErrNoTarget):
		return notFound("there is no target of this name")
	case errors.Is(err, registry.ErrNoFanOut):
		return problem("conflict", "this receiver has a url of its own; declare it with fan_out to give it targets")
	case errors.Is(err, registry.ErrNoLane):
		return notFound("no receiver was ever declared in this lane")
	case errors.Is(err, ledger.ErrClaimed):
		return problem("conflict", "a worker holds this delivery just now; ask again when its attempt has ended, or its lease")
	case errors.Is(err, ledger.ErrEnded):
		return problem("conflict", "this delivery has ended; a dead one can be requeued, any other replayed with its event")
	case errors.Is(err, event.ErrPaused):
		return problem("conflict", "its receiver, or its lane, is paused; resume it first")
	case errors.Is(err, ledger.ErrClaimLost):
		return problem("claim-lost", "this claim is not in force: another worker has the delivery, or it was settled; nothing was changed")
	case errors.Is(err, event.ErrPulled):
		return problem("conflict", "workers claim what this receiver is owed, so nobody here can try it; see POST /v1/lanes/{lane}/claim")
	case errors.Is(err, event.ErrStopping):
		return unavailable()
	case errors.Is(err, registry.ErrSecretSet):
		return problem("conflict", "the receiver has another signing secret already; leave secret out to keep it")
	case errors.Is(err, fire.ErrBusy), pg.Unavailable(err), pg.Retryable(err), pg.LockTimeout(err), errors.Is(err, context.DeadlineExceeded):
		a.log.WarnContext(ctx, "a request was refused for want of the database", "err", err)
		return unavailable()
	case errors.Is(err, context.Canceled):
		return unavailable()
	}
	a.log.ErrorContext(ctx, "a request failed", "err", err)
	return internal()
}

func overQuota(q fire.QuotaError) *Problem {
	wait := seconds(q.Wait.Seconds())
	return problem("quota-exceeded", q.Error()+"; nothing was stored; ask again with the same Idempotency-Key once some of it is delivered").
		with("Retry-After", strconv.Itoa(wait)).with("RateLimit-Policy", fmt.Sprintf(`"tenant";q=%d`, q.Most)).with("RateLimit", fmt.Sprintf(`"tenant";r=0;t=%d`, wait))
}

// explainIf is explain for what may be no error.
func (a *server) explainIf(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return a.explain(ctx, err)
}

// asProblem is what explain gave, as what it is.
func asProblem(err error) *Problem {
	var p *Problem
	if !errors.As(err, &p) {
		return internal()
	}
	return p
}

// below is the problem of a part, told of the whole: its pointers begin there.
func (p *Problem) below(pointer string) *Problem {
	told := *p
	told.Errors = slices.Clone(p.Errors)
	for n := range told.Errors {
		told.Errors[n].Pointer = pointer + told.Errors[n].Pointer
	}
	return &told
}

func unavailable() *Problem {
	return problem("service-unavailable", "the service cannot reach its database just now; nothing was changed; ask again, with the same Idempotency-Key where there was one").with("Retry-After", "1")
}

func internal() *Problem {
	return problem("internal-error", "the service failed; its log tells more under this request_id")
}

// adoptErrors makes huma's own findings problems of ours. They are about parameters,
// sizes and media types; bodies are read by decode.
func adoptErrors() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError { return fromHuma(status, msg, errs) }
	huma.NewErrorWithContext = func(_ huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return fromHuma(status, msg, errs)
	}
}

func fromHuma(status int, msg string, errs []error) huma.StatusError {
	for _, err := range errs {
		var p *Problem
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &p):
			return p
		case errors.As(err, &tooLarge):
			return tooLargeFor(tooLarge.Limit)
		}
	}
	if msg == "request body is required" {
		return malformed("the body is empty; it must be one JSON object")
	}
	switch status {
	case http.StatusRequestEntityTooLarge:
		var limit int64
		fmt.Sscanf(msg, "request body is too large limit=%d bytes", &limit)
		return tooLargeFor(limit - 1) // it is told one more than is allowed
	case http.StatusUnsupportedMediaType:
		return problem("unsupported-media-type", "send the body as application/json")
	case http.StatusRequestTimeout:
		return problem("request-timeout", "the request body did not arrive in time")
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return problem("invalid-parameter", parameterDetail(msg, errs))
	}
	if status >= 500 {
		return internal()
	}
	p := problem("bad-request", msg)
	p.Status = status
	return p
}

// parameterDetail says which parameter is wrong, and how, without repeating it.
func parameterDetail(msg string, errs []error) string {
	for _, err := range errs {
		var d *huma.ErrorDetail
		if errors.As(err, &d) {
			return strings.ReplaceAll(d.Location, ".", " ") + ": " + d.Message
		}
	}
	return msg
}

func tooLargeFor(limit int64) *Problem {
	return problem("payload-too-large", fmt.Sprintf("the request body is larger than %d bytes", limit))
}

// write is the way of answers that huma does not make.
func (p *Problem) write(w http.ResponseWriter, r *http.Request) {
	p.RequestID = requestID(r.Context())
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/problem+json")
	body, err := json.Marshal(p)
	if err != nil {
		slog.ErrorContext(r.Context(), "a problem could not be written", "err", err)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	w.Write(body)
}
