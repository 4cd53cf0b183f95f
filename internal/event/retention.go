package event

import (
	"fmt"
	"math"
	"time"
)

// Retention is for how long events of a type are kept: for a window of their own, or
// until something has come to pass. The zero value is the process's window. It is copied
// onto an event when that is fired.
type Retention struct {
	Window time.Duration
	When   Settled
}

// Settled is what must have come to pass before an event may be forgotten.
type Settled string

// An event that is kept until all have succeeded and of which one has not is kept for
// the process's window.
const (
	WhenSucceeded Settled = "succeeded" // every delivery has succeeded
	WhenSettled   Settled = "settled"   // every delivery is terminal, dead ones too
)

// maxRetention is 2^31-1 seconds.
const maxRetention = math.MaxInt32 * time.Second

// ParseRetention reads "succeeded", "settled", or a duration of whole seconds from 1s up
// to 2147483647s.
func ParseRetention(s string) (Retention, error) {
	switch Settled(s) {
	case WhenSucceeded, WhenSettled:
		return Retention{When: Settled(s)}, nil
	}
	d, err := parseLong(s)
	switch {
	case err != nil:
		return Retention{}, fmt.Errorf(`must be "succeeded", "settled", or a duration such as "30d"`)
	case d < time.Second || d%time.Second != 0:
		return Retention{}, fmt.Errorf("must be whole seconds, one at least")
	case d > maxRetention:
		return Retention{}, fmt.Errorf("is longer than 2147483647s")
	}
	return Retention{Window: d}, nil
}

// String is what ParseRetention reads back, or "" for the process's window.
func (r Retention) String() string {
	switch {
	case r.When != "":
		return string(r.When)
	case r.Window != 0:
		return Duration(r.Window).String()
	}
	return ""
}

// MarshalText writes [Retention.String].
func (r Retention) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what [ParseRetention] reads.
func (r *Retention) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRetention(string(text))
	return err
}
