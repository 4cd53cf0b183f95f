package event

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Rate bounds how many attempts begin in any span of that length. It is written
// COUNT/UNIT or COUNT/NUNIT, with s, m or h: "10/s", "300/m", "5/10s". The zero value is
// no bound.
type Rate struct {
	Count int
	Per   time.Duration
}

// Bounds of a rate.
const (
	maxPerSecond = 100_000
	secondsApart = 24 * 60 * 60 // at most, from one to the next
)

var rateForm = regexp.MustCompile(`^([1-9][0-9]{0,8})/([1-9][0-9]{0,8})?([smh])$`)

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// ParseRate reads the API's form: at most 100000/s, and at least one a day.
func ParseRate(s string) (Rate, error) {
	bad := func(why string) (Rate, error) {
		return Rate{}, fmt.Errorf("%q is no rate: %s; write it like 10/s, 300/m or 5/10s", clipped(s), why)
	}
	m := rateForm.FindStringSubmatch(s)
	if m == nil {
		return bad("it must be a whole number from 1, a slash, and s, m or h, before which a whole number from 1 may stand")
	}
	count, _ := strconv.Atoi(m[1])
	units := 1
	if m[2] != "" {
		units, _ = strconv.Atoi(m[2])
	}
	seconds := units * int(rateUnits[m[3]]/time.Second)
	switch {
	case seconds > int(MaxDuration/time.Second):
		return bad("its span is longer than " + Duration(MaxDuration).String())
	case count > maxPerSecond*seconds:
		return bad("it is above 100000/s")
	case seconds > secondsApart*count:
		return bad("it is slower than one a day, 1/24h")
	}
	return Rate{count, time.Duration(seconds) * time.Second}, nil
}

// clipped keeps what an error repeats of a long text short.
func clipped(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

// Interval is from one to the next, evenly spaced.
func (r Rate) Interval() time.Duration { return r.Per / time.Duration(r.Count) }

// String is the shortest form that [ParseRate] reads back, or "" for no bound. The span
// stays as long as it was declared: 60/m is not 1/s.
func (r Rate) String() string {
	if r == (Rate{}) {
		return ""
	}
	unit := "s"
	switch {
	case r.Per%time.Hour == 0:
		unit = "h"
	case r.Per%time.Minute == 0:
		unit = "m"
	}
	span := ""
	if n := r.Per / rateUnits[unit]; n > 1 {
		span = strconv.FormatInt(int64(n), 10)
	}
	return strconv.Itoa(r.Count) + "/" + span + unit
}

// MarshalText writes [Rate.String].
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what [ParseRate] reads.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}
