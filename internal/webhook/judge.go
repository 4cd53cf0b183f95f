package webhook

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// judge reads an answer as a verdict: contract, section 4. Only the status line and
// the headers are read. now is our own clock.
func judge(resp *http.Response, to *event.Receiver, now time.Time) event.Verdict {
	status, h := resp.StatusCode, resp.Header
	switch {
	case status >= 200 && status <= 299:
		return event.Verdict{Ruling: event.Success}
	case slices.Contains(to.PermanentStatuses, status):
		return event.Verdict{Ruling: event.Permanent, Class: event.ClassPermanent, Reason: answered(status) + ", which means never again"}
	case strings.EqualFold(strings.TrimSpace(h.Get("Eventsvc-Verdict")), "permanent"):
		return event.Verdict{Ruling: event.Permanent, Class: event.ClassPermanent, Reason: answered(status) + " with Eventsvc-Verdict: permanent"}
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		if after, ok := retryAfter(h, now); ok {
			return retryAfterVerdict(status, h, to, after)
		}
	case status == http.StatusTooEarly && h.Get("Eventsvc-Not-Before") != "":
		return notBefore(h.Get("Eventsvc-Not-Before"), now)
	}
	return event.Verdict{Ruling: event.Failure, Class: statusClass(status), Reason: answered(status)}
}

func retryAfterVerdict(status int, h http.Header, to *event.Receiver, after time.Duration) event.Verdict {
	return event.Verdict{
		Ruling: event.RetryAfter, After: after, Class: event.ClassRetryAfter,
		Uncounted: !to.CountDeferrals || strings.EqualFold(strings.TrimSpace(h.Get("Eventsvc-Counts")), "false"),
		Reason:    fmt.Sprintf("%s with Retry-After %.0f s", answered(status), after.Seconds()),
	}
}

// notBefore reads the receiver's statement of when its work is due. A moment that has
// passed, or that has no offset and so is no moment, is an ordinary failure.
func notBefore(value string, now time.Time) event.Verdict {
	until, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(value))
	switch {
	case err != nil:
		return event.Verdict{Ruling: event.Failure, Class: event.ClassHTTP4xx,
			Reason: "answered 425 with an Eventsvc-Not-Before that is no RFC 3339 time with an offset"}
	case !until.After(now):
		return event.Verdict{Ruling: event.Failure, Class: event.ClassHTTP4xx, Reason: "answered 425 with an Eventsvc-Not-Before in the past"}
	case until.Sub(now) > event.MaxDuration:
		return event.Verdict{Ruling: event.Failure, Class: event.ClassHTTP4xx, Reason: "answered 425 with an Eventsvc-Not-Before more than ten years ahead"}
	}
	until = until.UTC().Truncate(time.Microsecond)
	return event.Verdict{Ruling: event.NotYet, Until: until, Reason: "the receiver says that its work is not due before " + until.Format(time.RFC3339)}
}

// statusClass is the class of a status that is an ordinary failure. Go's client takes
// any three digits for a status, those that HTTP does not know among them.
func statusClass(status int) event.Class {
	switch status / 100 {
	case 3:
		return event.ClassHTTP3xx
	case 4:
		return event.ClassHTTP4xx
	case 5:
		return event.ClassHTTP5xx
	}
	return event.ClassProtocol
}

func answered(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("answered %d %s", status, text)
	}
	return fmt.Sprintf("answered %03d", status)
}
