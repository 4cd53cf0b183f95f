package registry

import (
	"cmp"
	"slices"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Declaration is what is declared of a receiver, as it was written: a nil field was
// left out and follows the settings of the process.
type Declaration struct {
	Events            []event.Pattern   `json:"events" doc:"Event types wanted: exact, prefix.* or *." minItems:"1" maxItems:"200" example:"[\"order.*\"]"`
	URL               string            `json:"url,omitempty" doc:"Where events are POSTed: http or https. Left out with site task." maxLength:"2000" example:"https://shop.example.com/hooks"`
	Function          string            `json:"function,omitempty" doc:"Instead of a url: a function of the database, schema.name(event jsonb, context jsonb), of a schema in EVENTSVC_FUNCTION_SCHEMAS. What it writes and its acknowledgement are one transaction." maxLength:"127" example:"shop.ship_order"`
	Role              string            `json:"role,omitempty" doc:"With function: the role of the database that it runs as." maxLength:"63"`
	FanOut            bool              `json:"fan_out,omitempty" doc:"Instead of a url: it has targets, each of which gets a delivery of its own."`
	Signatures        []event.Signature `json:"signatures,omitempty" doc:"How requests are signed: v1 (HMAC) alone, or v1a (Ed25519) beside it." enum:"v1,v1a" default:"[\"v1\"]"`
	Secret            *string           `json:"secret,omitempty" doc:"Signing secret to use instead of a generated one: whsec_ and base64 of 24-64 bytes. Write only."`
	Mode              event.Mode        `json:"mode,omitempty" enum:"durable,on_commit,inline" default:"durable" doc:"When it is told, and with which guarantee. durable: a delivery, tried until it has ended. on_commit: one request once the event is stored, by the process that fired it, best effort, without a delivery. inline: asked before the event is stored, which any answer but 2xx vetoes; with a function, called in the transaction that stores it, which anything that it raises vetoes. on_commit with a url only; for both, what shapes a delivery is refused."`
	Site              string            `json:"site,omitempty" enum:"relay,task" default:"relay" doc:"Where it runs. relay: relay workers make the requests. task with a url or fan_out: they hand deliveries over NATS JetStream to eventsvc worker, which makes them. task with neither: workers of yours claim its deliveries over HTTP (POST /v1/lanes/{lane}/claim), and fields that shape a request are refused."`
	Eager             bool              `json:"eager,omitempty" default:"false" doc:"Its first attempt comes right after the commit, in the process that fired the event; a relay makes it where that has no room for it, or dies. Not for what is due later, has a rate_limit or site task: that waits for a relay as ever."`
	Lane              string            `json:"lane,omitempty" default:"default" doc:"Keeps work apart that must not queue behind other work." maxLength:"64"`
	Tenant            string            `json:"tenant,omitempty" doc:"Only this tenant's events." maxLength:"255"`
	Filter            string            `json:"filter,omitempty" doc:"Only events that meet this condition, in CEL over event. What an event does not have is no match." maxLength:"4096" example:"event.data.total > 100"`
	MaxAttempts       *int              `json:"max_attempts,omitempty" doc:"Attempts before the delivery is dead; copied to a delivery when its event is fired." minimum:"1" maximum:"1000"`
	BackoffBase       *event.Duration   `json:"backoff_base,omitempty" doc:"Ceiling of the first wait; it doubles with each attempt."`
	BackoffCap        *event.Duration   `json:"backoff_cap,omitempty" doc:"No wait's ceiling is higher."`
	GiveUpAfter       *event.Duration   `json:"give_up_after,omitempty" doc:"Bounds uncounted deferrals, measured from when the delivery became owed."`
	CountDeferrals    *bool             `json:"count_deferrals,omitempty" default:"true" doc:"false: a 429 or 503 with Retry-After spends no attempt; needs give_up_after."`
	Due               *event.Duration   `json:"due,omitempty" doc:"The first attempt comes this long after the event was recorded."`
	Timeout           *event.Duration   `json:"timeout,omitempty" doc:"Bound of a whole attempt, at most 5m; with mode inline, 10s. Default: 10s; with mode inline, 2s."`
	Lease             *event.Duration   `json:"lease,omitempty" doc:"How long a worker may hold a delivery; must exceed timeout by more than 5s. Default: timeout + 20s."`
	Format            event.Format      `json:"format,omitempty" enum:"standard,cloudevents,cloudevents-binary,raw" default:"standard" doc:"What is sent."`
	Headers           map[string]string `json:"headers,omitempty" doc:"Static extra headers."`
	PermanentStatuses []int             `json:"permanent_statuses,omitzero" doc:"Statuses that mean: never again. Default [410]; [] is none."`
	MaxConcurrency    *int              `json:"max_concurrency,omitempty" minimum:"1" maximum:"1000" doc:"Attempts in flight, per process. Default: 32; with function, 4, as each has a connection to the database."`
	RateLimit         *event.Rate       `json:"rate_limit,omitempty" doc:"Attempts begun in any span of that length, evenly spaced, per target and process: COUNT/UNIT or COUNT/NUNIT with s, m or h, from 1/24h to 100000/s. Default: none." example:"300/m"`
	PauseScope        event.PauseScope  `json:"pause_scope,omitempty" enum:"lane,target" default:"lane" doc:"What an uncounted deferral pauses in the process that heard it."`
	OnFailure         *OnFailure        `json:"on_failure,omitempty" doc:"Told of each failed attempt after it was recorded: one signed request, sent once."`
	Trace             *bool             `json:"trace,omitempty" default:"true" doc:"Send the traceparent of the attempt's span."`
	Description       string            `json:"description,omitempty" maxLength:"1000"`
	Metadata          map[string]string `json:"metadata,omitempty" doc:"Flat strings for your own use."`
}

// OnFailure is where failures are told.
type OnFailure struct {
	URL string `json:"url" doc:"http or https, under the same egress policy as the receiver's own." maxLength:"2000" example:"https://shop.example.com/failures"`
}

// Defaults are the terms of receivers that declare none.
type Defaults struct {
	MaxAttempts   int
	Curve         event.Curve
	Lease         time.Duration // zero: timeout + 20s
	MaxRetryAfter time.Duration
}

// What a receiver gets that declares nothing else.
const (
	defaultTimeout        = 10 * time.Second
	inlineTimeout         = 2 * time.Second  // producers wait for it
	defaultLeaseOver      = 20 * time.Second // over the timeout
	defaultMaxConcurrency = 32
	defaultMaxCalls       = 4 // of a function, each of which has a connection of its own
)

var defaultPermanent = []int{410}

// Resolve fills in every default: the receiver as it is used.
func (d *Declaration) Resolve(key string, def Defaults) *event.Receiver {
	r := &event.Receiver{
		Key:      key,
		Mode:     d.mode(),
		Lane:     d.lane(),
		Patterns: d.Events,
		Tenant:   d.Tenant,
		Terms: event.Terms{
			Curve: event.Curve{
				Base: or(d.BackoffBase, def.Curve.Base),
				Cap:  or(d.BackoffCap, def.Curve.Cap),
			},
			CountDeferrals: d.CountDeferrals == nil || *d.CountDeferrals,
			GiveUpAfter:    or(d.GiveUpAfter, 0),
			MaxRetryAfter:  def.MaxRetryAfter,
		},
		MaxAttempts:       def.MaxAttempts,
		Due:               or(d.Due, 0),
		Timeout:           d.timeout(),
		Lease:             d.lease(def),
		Format:            d.Format,
		Headers:           d.Headers,
		PermanentStatuses: d.PermanentStatuses,
		MaxConcurrency:    d.maxConcurrency(),
		Trace:             d.Trace == nil || *d.Trace,
		Function:          d.Function,
		Role:              d.Role,
		FanOut:            d.FanOut,
		Task:              d.Site == SiteTask,
		Eager:             d.Eager,
		PauseScope:        d.PauseScope,
	}
	if r.PauseScope == "" {
		r.PauseScope = event.PauseLane
		if d.FanOut {
			r.PauseScope = event.PauseTarget
		}
	}
	if d.OnFailure != nil {
		r.OnFailure = d.OnFailure.URL
	}
	if d.MaxAttempts != nil {
		r.MaxAttempts = *d.MaxAttempts
	}
	if r.Mode != event.Durable {
		r.MaxAttempts = 1
	}
	if d.RateLimit != nil {
		r.RateLimit = *d.RateLimit
	}
	if r.Format == "" {
		r.Format = event.FormatStandard
	}
	if r.PermanentStatuses == nil {
		r.PermanentStatuses = defaultPermanent
	}
	return r
}

// The sites: where a receiver runs.
const (
	SiteRelay = "relay"
	SiteTask  = "task"
)

// Pulled reports whether workers elsewhere claim what the receiver is owed: it has nothing
// that a request could be made to.
func (d *Declaration) Pulled() bool {
	return d.Site == SiteTask && d.URL == "" && d.Function == "" && !d.FanOut
}

func (d *Declaration) mode() event.Mode { return cmp.Or(d.Mode, event.Durable) }

func (d *Declaration) site() string { return cmp.Or(d.Site, SiteRelay) }

// Ways are those in which requests are signed: v1 always.
func (d *Declaration) Ways() []event.Signature {
	if slices.Contains(d.Signatures, event.SignV1a) {
		return []event.Signature{event.SignV1, event.SignV1a}
	}
	return []event.Signature{event.SignV1}
}

func (d *Declaration) lane() string {
	if d.Lane == "" {
		return event.DefaultLane
	}
	return d.Lane
}

func (d *Declaration) maxConcurrency() int {
	switch {
	case d.MaxConcurrency != nil:
		return *d.MaxConcurrency
	case d.Function != "":
		return defaultMaxCalls
	}
	return defaultMaxConcurrency
}

func (d *Declaration) timeout() time.Duration {
	if d.mode() == event.Inline {
		return or(d.Timeout, inlineTimeout)
	}
	return or(d.Timeout, defaultTimeout)
}

// leaseFloor is what a lease must exceed: what an attempt takes, where we make it, and
// room to record it.
func (d *Declaration) leaseFloor() time.Duration {
	if d.Pulled() {
		return event.LeaseMargin
	}
	return d.timeout() + event.LeaseMargin
}

func (d *Declaration) lease(def Defaults) time.Duration {
	fallback := d.timeout() + defaultLeaseOver
	if def.Lease > d.timeout()+event.LeaseMargin {
		fallback = def.Lease
	}
	return or(d.Lease, fallback)
}

func or(declared *event.Duration, fallback time.Duration) time.Duration {
	if declared == nil {
		return fallback
	}
	return time.Duration(*declared)
}
