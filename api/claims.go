package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// Remote serves workers that are elsewhere.
type Remote interface {
	// Claim leases up to most deliveries of a lane to a worker, and waits for some where
	// none is due.
	Claim(ctx context.Context, lane, worker string, most int, wait time.Duration) ([]*event.Claim, error)
	// Extend has the lease of a claim end so long from now.
	Extend(ctx context.Context, by ledger.Holding, lease time.Duration) (time.Time, error)
	// Complete records what a worker says came of its attempt.
	Complete(ctx context.Context, by ledger.Holding, v event.Verdict) error
}

// Bounds of claims.
const (
	maxClaims     = 100
	maxClaimWait  = 30 * time.Second
	maxWorkerName = 128
	maxExtension  = 24 * time.Hour
	minExtension  = time.Second
)

// claiming is the body of a claim.
type claiming struct {
	Worker string          `json:"worker" maxLength:"128" doc:"Names who claims, in deliveries and their trails. One name for each process is best, the same for as long as it runs." example:"importer-1"`
	Max    *int            `json:"max,omitempty" minimum:"1" maximum:"100" default:"1" doc:"At most so many deliveries. Claim what you start at once: the leases run."`
	Wait   *event.Duration `json:"wait,omitempty" doc:"Where nothing is due, how long to wait until something is: at most 30s. Default: 0s."`
}

// claimedView is a delivery as its worker gets it.
type claimedView struct {
	_           struct{}  `additionalProperties:"true"`
	ID          string    `json:"id" example:"dlv_01jxkg2c8zf3v9e4m6r7t8w9yb"`
	ClaimedBy   string    `json:"claimed_by"`
	ClaimedAt   string    `json:"claimed_at" format:"date-time" doc:"The database's time to the microsecond. Give it back as it is: with claimed_by it is the proof of the claim." example:"2027-01-31T12:00:00.000123Z"`
	LeaseUntil  time.Time `json:"lease_until" doc:"Until then nobody else gets it. Settle it before, or extend the lease."`
	Attempt     int       `json:"attempt"`
	MaxAttempts int       `json:"max_attempts"`
	Receiver    string    `json:"receiver"`
	WebhookID   string    `json:"webhook_id" doc:"The same on every attempt: recognise repeats by it."`
	DueAt       time.Time `json:"due_at,omitzero" doc:"When scheduled work is due."`
	Event       claimFact `json:"event"`
}

// claimFact is an event as a worker gets it.
type claimFact struct {
	Fact
	TraceParent string `json:"traceparent,omitempty" doc:"Of the event's creation: link your own span to it."`
}

type claimsOutput struct {
	Body struct {
		_          struct{}      `additionalProperties:"true"`
		Deliveries []claimedView `json:"deliveries" doc:"By when they became available. Empty where nothing was due, to the end of the wait."`
	}
}

// holding is the proof of a claim in a body.
type holding struct {
	ClaimedBy string `json:"claimed_by" maxLength:"128" doc:"As the claim has it." example:"importer-1"`
	ClaimedAt string `json:"claimed_at" format:"date-time" doc:"As the claim has it, to the microsecond." example:"2027-01-31T12:00:00.000123Z"`
}

type extending struct {
	holding
	Lease event.Duration `json:"lease" doc:"How long from now, 1s to 24h."`
}

type extendedView struct {
	_          struct{}  `additionalProperties:"true"`
	LeaseUntil time.Time `json:"lease_until"`
}

type completing struct {
	holding
	Verdict           event.Ruling `json:"verdict" enum:"success,failure,permanent,retry_after,not_yet" doc:"success; failure: tried again on the curve; permanent: never again; retry_after: not before retry_after_seconds have passed; not_yet: its work is not due before not_before, nothing is spent."`
	RetryAfterSeconds *int64       `json:"retry_after_seconds,omitempty" minimum:"0" doc:"With retry_after. No longer than EVENTSVC_MAX_RETRY_AFTER is honoured."`
	Counts            *bool        `json:"counts,omitempty" default:"true" doc:"With retry_after. false: the attempt is not spent, for as long as the receiver's give_up_after; it pauses nothing."`
	NotBefore         *time.Time   `json:"not_before,omitempty" doc:"With not_yet: a moment to come."`
	Error             string       `json:"error,omitempty" doc:"Why, for people: kept in the trail, up to 2000 bytes."`
}

func (s *server) claims(api huma.API) {
	op := operation(operatesAll, http.MethodPost, "/v1/lanes/{lane}/claim", "claim-deliveries", "Workers", "Claim deliveries to run them yourself",
		"Of receivers with site task in that lane, each under its receiver's lease, oldest first and every receiver in turn. With wait it is a long poll. What is neither completed nor extended before its lease ends is another worker's, and shows in the trail as unknown. 503 while the service stops: ask again.")
	op.SkipValidateBody, op.Errors = true, []int{400, 404, 413, 415, 422}
	op.Metadata[waitMetadata] = func(http.Header) time.Duration { return maxClaimWait }
	register(api, op, s.claim)
	documentBody[claiming](api, op, map[string]*huma.Example{"wait": {Value: map[string]any{"worker": "importer-1", "max": 10, "wait": "20s"}}})

	const fenced = " Only under the claim in force: claimed_by and claimed_at are those of the claim. 409 claim-lost once another worker has it, or it was settled."
	op = operation(operatesAll, http.MethodPost, "/v1/deliveries/{id}/extend", "extend-claim", "Workers", "Hold a delivery longer", "Has the lease end so long from now."+fenced)
	op.SkipValidateBody, op.Errors = true, []int{400, 404, 409, 413, 415, 422}
	register(api, op, s.extend)
	documentBody[extending](api, op, nil)

	op = operation(operatesAll, http.MethodPost, "/v1/deliveries/{id}/complete", "complete-claim", "Workers", "Say what came of a delivery",
		"Records the attempt, with all that follows one of the service's own: the curve, the failure log, on_failure, the metrics. Answers the delivery as it then is."+fenced)
	op.SkipValidateBody, op.Errors = true, []int{400, 404, 409, 413, 415, 422}
	register(api, op, s.complete)
	documentBody[completing](api, op, map[string]*huma.Example{"done": {Value: map[string]any{"claimed_by": "importer-1", "claimed_at": "2027-01-31T12:00:00.000123Z", "verdict": "success"}}})
}

func (s *server) claim(ctx context.Context, in *struct {
	Request
	Lane    string `path:"lane" example:"mail"`
	RawBody []byte `contentType:"application/json"`
}) (*claimsOutput, error) {
	var b claiming
	if err := in.body(in.RawBody, &b); err != nil {
		return nil, err
	}
	most, wait, err := b.read()
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	lanes, err := s.Registry.Lanes(ctx)
	if err == nil && !slices.ContainsFunc(lanes, func(l registry.Lane) bool { return l.Name == in.Lane }) {
		err = registry.ErrNoLane
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	claims, err := s.Remote.Claim(ctx, in.Lane, b.Worker, most, wait)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	out := &claimsOutput{}
	out.Body.Deliveries = []claimedView{}
	for _, c := range claims {
		out.Body.Deliveries = append(out.Body.Deliveries, showClaimed(c, b.Worker))
	}
	return out, nil
}

func (b *claiming) read() (most int, wait time.Duration, err error) {
	var flaws event.Flaws
	checkWorker(&flaws, "/worker", b.Worker)
	most = 1
	if b.Max != nil {
		most = *b.Max
	}
	if most < 1 || most > maxClaims {
		flaws.Add("/max", fmt.Sprintf("%d is outside 1 to %d", most, maxClaims))
	}
	if b.Wait != nil {
		wait = time.Duration(*b.Wait)
	}
	if wait < 0 || wait > maxClaimWait {
		flaws.Add("/wait", fmt.Sprintf("%s is outside 0s to %s", event.Duration(wait), event.Duration(maxClaimWait)))
	}
	return most, wait, flaws.Err()
}

func checkWorker(flaws *event.Flaws, pointer, name string) {
	switch {
	case name == "":
		flaws.Add(pointer, "is required: the name of the worker")
	case len(name) > maxWorkerName:
		flaws.Add(pointer, fmt.Sprintf("is %d bytes long; at most %d are allowed", len(name), maxWorkerName))
	case strings.ContainsFunc(name, unicode.IsControl):
		flaws.Add(pointer, "must not hold control characters")
	}
}

// fenceTime is the form of a claim's moment: the tables' whole precision, always.
const fenceTime = "2006-01-02T15:04:05.000000Z"

func showClaimed(c *event.Claim, worker string) claimedView {
	about := c.Context()
	return claimedView{
		ID: about.DeliveryID.Text(event.DeliveryPrefix), ClaimedBy: worker, ClaimedAt: c.ClaimedAt.UTC().Format(fenceTime), LeaseUntil: c.LeaseUntil.UTC(),
		Attempt: about.Attempt, MaxAttempts: about.MaxAttempts, Receiver: about.Receiver, WebhookID: about.WebhookID, DueAt: about.DueAt.UTC(),
		Event: claimFact{showEvent(&c.Event), about.TraceParent},
	}
}

func (h *holding) read(flaws *event.Flaws, id event.ID) ledger.Holding {
	checkWorker(flaws, "/claimed_by", h.ClaimedBy)
	at, err := time.Parse(time.RFC3339Nano, h.ClaimedAt)
	if err != nil || at.Nanosecond()%int(time.Microsecond) != 0 {
		flaws.Add("/claimed_at", "must be the claimed_at of the claim, as it was given: a time as in RFC 3339, to the microsecond")
	}
	return ledger.Holding{Fence: event.Fence{Delivery: id, ClaimedAt: at}, Worker: h.ClaimedBy}
}

func (s *server) extend(ctx context.Context, in *struct {
	Request
	DeliveryID
	RawBody []byte `contentType:"application/json"`
}) (*struct{ Body extendedView }, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	var b extending
	if err := in.body(in.RawBody, &b); err != nil {
		return nil, err
	}
	var flaws event.Flaws
	by := b.read(&flaws, id)
	if lease := time.Duration(b.Lease); lease < minExtension || lease > maxExtension {
		flaws.Add("/lease", fmt.Sprintf("%s is outside %s to %s", b.Lease, event.Duration(minExtension), event.Duration(maxExtension)))
	}
	if err := flaws.Err(); err != nil {
		return nil, s.explain(ctx, err)
	}
	until, err := s.Remote.Extend(ctx, by, time.Duration(b.Lease))
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &struct{ Body extendedView }{extendedView{LeaseUntil: until.UTC()}}, nil
}

func (s *server) complete(ctx context.Context, in *struct {
	Request
	DeliveryID
	RawBody []byte `contentType:"application/json"`
}) (*deliveryOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	var b completing
	if err := in.body(in.RawBody, &b); err != nil {
		return nil, err
	}
	var flaws event.Flaws
	by, v := b.holding.read(&flaws, id), b.verdict(&flaws, time.Now())
	if err := flaws.Err(); err != nil {
		return nil, s.explain(ctx, err)
	}
	if err := s.Remote.Complete(ctx, by, v); err != nil {
		return nil, s.explain(ctx, err)
	}
	return s.delivery(ctx, id, http.StatusOK)
}

// verdict is what a worker says came of its attempt, as if a receiver had answered it.
func (b *completing) verdict(flaws *event.Flaws, now time.Time) event.Verdict {
	v := event.Verdict{Ruling: b.Verdict, Reason: b.Error}
	switch b.Verdict {
	case event.Success:
		v.Reason = ""
	case event.Failure:
		v.Class = event.ClassTask
	case event.Permanent:
		v.Class = event.ClassPermanent
	case event.RetryAfter:
		v.Class, v.After = event.ClassRetryAfter, b.after(flaws)
		v.Uncounted = b.Counts != nil && !*b.Counts
	case event.NotYet:
		v.Until = b.until(flaws, now)
	default:
		flaws.Add("/verdict", "must be success, failure, permanent, retry_after or not_yet")
	}
	b.refuseIdle(flaws)
	if v.Reason == "" && b.Verdict != event.Success {
		v.Reason = fmt.Sprintf("the worker says %s", b.Verdict)
	}
	return v
}

func (b *completing) after(flaws *event.Flaws) time.Duration {
	const most = int64(event.MaxDuration / time.Second)
	switch {
	case b.RetryAfterSeconds == nil:
		flaws.Add("/retry_after_seconds", "is required with verdict retry_after")
	case *b.RetryAfterSeconds < 0:
		flaws.Add("/retry_after_seconds", "must not be negative")
	default:
		return time.Duration(min(*b.RetryAfterSeconds, most)) * time.Second
	}
	return 0
}

func (b *completing) until(flaws *event.Flaws, now time.Time) time.Time {
	switch {
	case b.NotBefore == nil:
		flaws.Add("/not_before", "is required with verdict not_yet")
		return time.Time{}
	case !b.NotBefore.After(now):
		flaws.Add("/not_before", "must be a moment to come")
	case b.NotBefore.Sub(now) > event.MaxDuration:
		flaws.Add("/not_before", "is more than ten years ahead")
	}
	return b.NotBefore.UTC().Truncate(time.Microsecond)
}

// refuseIdle refuses what would be ignored in silence.
func (b *completing) refuseIdle(flaws *event.Flaws) {
	for _, f := range []struct {
		pointer string
		given   bool
		with    event.Ruling
	}{
		{"/retry_after_seconds", b.RetryAfterSeconds != nil, event.RetryAfter},
		{"/counts", b.Counts != nil, event.RetryAfter},
		{"/not_before", b.NotBefore != nil, event.NotYet},
	} {
		if f.given && b.Verdict != f.with {
			flaws.Add(f.pointer, fmt.Sprintf("has a meaning with verdict %s only", f.with))
		}
	}
}
