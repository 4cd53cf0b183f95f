package webhook

import (
	"net/http"
	"strings"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// retryAfter reads Retry-After (RFC 9110, section 10.2.3): seconds in ASCII digits, or
// a date in any of the three forms, which is measured against the answer's own Date
// where that can be read, so that the receiver's clock need not be right. A date that
// has passed is zero. Anything else, two headers among it, cannot be read.
//
// However long the number, the duration is bounded: it never overflows.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	values := h.Values("Retry-After")
	if len(values) != 1 {
		return 0, false
	}
	value := strings.TrimSpace(values[0])
	if seconds, ok := digits(value); ok {
		return seconds, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return min(max(at.Sub(now), 0), event.MaxDuration), true
}

// digits reads a number of seconds, bounded by event.MaxDuration.
func digits(s string) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	const most = int64(event.MaxDuration / time.Second)
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = min(n*10+int64(s[i]-'0'), most)
	}
	return time.Duration(n) * time.Second, true
}
