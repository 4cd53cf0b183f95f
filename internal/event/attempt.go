package event

import "time"

// Outcome is the one word of the trail for what an attempt came to.
type Outcome string

// Unknown is the outcome of an attempt whose worker was lost: it may or may not
// have reached the receiver.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
	OutcomeDeferred  Outcome = "deferred"
	OutcomeNotYet    Outcome = "not_yet"
	OutcomeUnknown   Outcome = "unknown"
)

// Attempt is one try, kept as evidence.
type Attempt struct {
	Number     int
	StartedAt  time.Time
	Duration   time.Duration
	Outcome    Outcome
	Class      Class  // "" for a success
	HTTPStatus int    // 0 where no status line was read
	Error      string // for people, never parsed
	Worker     string
	Evidence   *Evidence
}

// Evidence is what was seen on the wire. Only the status line and the headers
// decide; evidence is for reading.
type Evidence struct {
	Timings  Timings  `json:"timings"`
	Response Response `json:"response"`
}

// Timings are the parts of an attempt, in milliseconds. A part that did not happen
// (a reused connection has no DNS, connect or TLS) is zero.
type Timings struct {
	DNS       float64 `json:"dns_ms"`
	Connect   float64 `json:"connect_ms"`
	TLS       float64 `json:"tls_ms"`
	FirstByte float64 `json:"first_byte_ms"`
	Reused    bool    `json:"reused_connection"`
}

// Response is what the receiver said, made safe to store: valid UTF-8 without NUL,
// cut to a bound.
type Response struct {
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body"`
	// Base64 says that Body is base64 of bytes that are no text.
	Base64 bool `json:"body_base64,omitempty,omitzero"`
	// Cut says that the receiver sent more than is kept.
	Cut bool `json:"body_cut,omitempty,omitzero"`
}
