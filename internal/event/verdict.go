package event

import (
	"regexp"
	"time"
)

// Ruling is what an attempt means for its delivery.
type Ruling string

// The rulings of the contract, section 4.
const (
	Success    Ruling = "success"
	Failure    Ruling = "failure"     // the curve says when to try again
	Permanent  Ruling = "permanent"   // never again
	RetryAfter Ruling = "retry_after" // the receiver says when to try again
	NotYet     Ruling = "not_yet"     // the work is not due until a given time
)

// Class is why an attempt failed, from a closed set: it labels the failure log, the
// trail and the metrics.
type Class string

// The closed set. SQLClass makes the remaining ones.
const (
	ClassHTTP3xx    Class = "http_3xx"
	ClassHTTP4xx    Class = "http_4xx"
	ClassHTTP5xx    Class = "http_5xx"
	ClassTimeout    Class = "timeout"
	ClassDNS        Class = "dns"
	ClassConnect    Class = "connect"
	ClassTLS        Class = "tls"
	ClassGuarded    Class = "guarded" // an address that the egress policy denies
	ClassProtocol   Class = "protocol"
	ClassPermanent  Class = "permanent"
	ClassRetryAfter Class = "retry_after"
	ClassDeferred   Class = "deferred"
	ClassGaveUp     Class = "gave_up"
	ClassDecode     Class = "decode" // what is stored cannot be turned into an attempt
	ClassPoison     Class = "poison" // too many workers were lost under it
	ClassAround     Class = "around" // a hook refused to let it start
	ClassPanic      Class = "panic"
	ClassTask       Class = "task" // a worker elsewhere says that it failed, or it cannot be handed to one
)

// SQLClass is the class of a function receiver that failed with that SQLSTATE. Whatever is
// no SQLSTATE is taken for an internal error, so that the set stays closed.
func SQLClass(state string) Class {
	if !sqlState.MatchString(state) {
		state = "XX000"
	}
	return Class("sql:" + state)
}

var sqlState = regexp.MustCompile(`^[0-9A-Z]{5}$`)

// Verdict is what one attempt came to: a value, not an error, as a receiver that
// refuses is an ordinary thing.
type Verdict struct {
	Ruling Ruling
	// After is, for RetryAfter, how long the receiver asked to be left alone.
	After time.Duration
	// Uncounted is, for RetryAfter, the wish that the attempt be not spent.
	Uncounted bool
	// Until is, for NotYet, when the work is due.
	Until time.Time
	// Class and Reason say why, unless it was a success. Reason is for people.
	Class  Class
	Reason string
	// HTTPStatus is 0 where no status line was read.
	HTTPStatus int
	StartedAt  time.Time
	Duration   time.Duration
	Evidence   *Evidence
	// Result is, for Success, what the receiver answered to have done with the record of it:
	// JSON that was not read yet; nil where there is none.
	Result []byte
}

// Failed reports whether the verdict is one that the failure log tells: everything
// but success and not-yet.
func (v *Verdict) Failed() bool { return v.Ruling != Success && v.Ruling != NotYet }
