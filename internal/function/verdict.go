package function

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/eventsvc/eventsvc/internal/event"
)

// The SQLSTATEs by which a function gives a verdict.
const (
	statePermanent  = "EV410"
	stateRetryAfter = "EV429"
	stateNotYet     = "EV425"

	stateCancelled = "57014"
)

// judge reads the error of a call as a verdict. bound is the statement timeout, and took
// how long the call went on.
func judge(ctx context.Context, err error, to *event.Receiver, bound, took time.Duration, now time.Time) event.Verdict {
	var raised *pgconn.PgError
	if !errors.As(err, &raised) {
		return unanswered(ctx, err, to.Timeout)
	}
	switch {
	case raised.Code == statePermanent:
		return event.Verdict{Ruling: event.Permanent, Class: event.ClassPermanent, Reason: plain(raised.Message)}
	case raised.Code == stateRetryAfter:
		return retryAfter(raised, to)
	case raised.Code == stateNotYet:
		return notYet(raised, now)
	case raised.Code == stateCancelled && took >= bound:
		return event.Verdict{Ruling: event.Failure, Class: event.ClassTimeout, Reason: "the function did not return within " + event.Duration(bound).String()}
	}
	return ordinary(raised, plain(raised.Message))
}

func ordinary(raised *pgconn.PgError, reason string) event.Verdict {
	return event.Verdict{Ruling: event.Failure, Class: event.SQLClass(raised.Code), Reason: raised.Code + ": " + reason}
}

// unanswered is the verdict on a call that the database did not answer.
func unanswered(ctx context.Context, err error, timeout time.Duration) event.Verdict {
	v := event.Verdict{Ruling: event.Failure, Class: event.ClassConnect, Reason: "the connection to the database was lost under the function"}
	var long *pgproto3.ExceededMaxBodyLenErr
	switch {
	case errors.As(err, &long):
		v.Class, v.Reason = event.ClassProtocol, "what the function raised is too long to be read"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		v.Class, v.Reason = event.ClassTimeout, "the function did not return within "+event.Duration(timeout).String()
	case ctx.Err() != nil:
		v.Reason = "the attempt was cut off on our side before the function returned"
	}
	return v
}

// deferral is the detail of a retry-after.
type deferral struct {
	Seconds *int64 `json:"seconds"`
	Counts  *bool  `json:"counts"`
}

func retryAfter(raised *pgconn.PgError, to *event.Receiver) event.Verdict {
	var asked deferral
	if err := json.Unmarshal([]byte(raised.Detail), &asked); err != nil || asked.Seconds == nil || *asked.Seconds < 0 {
		return ordinary(raised, `raised without a DETAIL such as {"seconds": 30, "counts": true}`)
	}
	after := time.Duration(min(*asked.Seconds, int64(event.MaxDuration/time.Second))) * time.Second
	return event.Verdict{
		Ruling: event.RetryAfter, After: after, Class: event.ClassRetryAfter,
		Uncounted: !to.CountDeferrals || asked.Counts != nil && !*asked.Counts,
		Reason:    fmt.Sprintf("the function asks to be called again after %.0f s", after.Seconds()),
	}
}

// notYet reads when the work is due. A moment that has passed, or that has no offset and
// so is no moment, is an ordinary failure.
func notYet(raised *pgconn.PgError, now time.Time) event.Verdict {
	until, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(raised.Detail))
	switch {
	case err != nil:
		return ordinary(raised, "raised with a DETAIL that is no RFC 3339 time with an offset")
	case !until.After(now):
		return ordinary(raised, "raised with a time that is past")
	case until.Sub(now) > event.MaxDuration:
		return ordinary(raised, "raised with a time more than ten years ahead")
	}
	until = until.UTC().Truncate(time.Microsecond)
	return event.Verdict{Ruling: event.NotYet, Until: until, Reason: "the function says that its work is not due before " + until.Format(time.RFC3339)}
}

// maxReason bounds a reason, in bytes.
const maxReason = 300

// plain is what a function said, in one line and bounded.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= maxReason {
		return s
	}
	cut := maxReason
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
