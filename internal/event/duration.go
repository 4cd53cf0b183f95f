package event

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that is written as the API writes durations: Go's
// syntax plus d for days of 24 hours, such as "90s", "48h", "2d" or "1d12h".
type Duration time.Duration

// MaxDuration is the longest duration that a declaration may hold: ten years. It
// keeps every sum of a database time and a duration far inside timestamptz.
const MaxDuration = 3650 * 24 * time.Hour

// ParseDuration reads the API's form. A negative, unbounded or unit-less value is
// refused.
func ParseDuration(s string) (Duration, error) {
	d, err := parseLong(s)
	if err == nil && d > MaxDuration {
		return 0, fmt.Errorf("%q is no duration: it is longer than 3650d; write it like 90s, 48h or 2d", s)
	}
	return Duration(d), err
}

// parseLong reads the API's form up to a hundred years.
func parseLong(s string) (time.Duration, error) {
	bad := func(why string) (time.Duration, error) {
		return 0, fmt.Errorf("%q is no duration: %s; write it like 90s, 48h or 2d", s, why)
	}
	if s == "" {
		return bad("it is empty")
	}
	days, rest := 0.0, s
	if head, tail, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseFloat(head, 64)
		if err != nil || strings.ContainsAny(head, "eExXnN+_") {
			return bad("the number of days cannot be read")
		}
		days, rest = n, tail
	}
	var d time.Duration
	if rest != "" {
		var err error
		if d, err = time.ParseDuration(rest); err != nil {
			return bad("it cannot be read")
		}
	}
	total := days*float64(24*time.Hour) + float64(d)
	switch {
	case math.IsNaN(total) || total < 0 || d < 0:
		return bad("it must not be negative")
	case total > float64(100*365*24*time.Hour):
		return bad("it is longer than 3650d")
	}
	return time.Duration(days*float64(24*time.Hour)) + d, nil
}

// String is the shortest form that [ParseDuration] reads back: "1h30m", "2d",
// "90s" as "1m30s".
func (d Duration) String() string {
	const day = Duration(24 * time.Hour)
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes [Duration.String].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what [ParseDuration] reads.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDuration(string(text))
	return err
}
