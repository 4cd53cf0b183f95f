package event

import "time"

// Curve is how patiently a delivery is retried: the ceilings of its waits.
type Curve struct {
	Base time.Duration // the ceiling of the first wait
	Cap  time.Duration // no ceiling is higher
}

// maxDoublings bounds the exponent before the power is taken: no cap in use is
// 2^62 times its base, and the loop below stops at the cap before it can overflow.
const maxDoublings = 62

// Ceiling is the longest wait after the given attempt (1 is the first):
// min(base * 2^(attempt-1), cap), for every attempt number without overflow.
func (c Curve) Ceiling(attempt int) time.Duration {
	ceiling := c.Base
	for range min(max(attempt-1, 0), maxDoublings) {
		if ceiling >= c.Cap-ceiling {
			return c.Cap
		}
		ceiling *= 2
	}
	return min(ceiling, c.Cap)
}

// Wait is the wait after the given attempt under full jitter: draw, a number in
// [0, 1), says where in the window up to the ceiling it falls. Drawing from the
// whole window, rather than adding a little on top of it, is what keeps deliveries
// that failed together from coming back together.
func (c Curve) Wait(attempt int, draw float64) time.Duration {
	return time.Duration(float64(c.Ceiling(attempt)) * draw)
}

// Ceilings are the waits' ceilings of a delivery with that many attempts: one less
// than the attempts, as nothing is waited for after the last.
func (c Curve) Ceilings(maxAttempts int) []time.Duration {
	ceilings := make([]time.Duration, 0, max(maxAttempts-1, 0))
	for n := 1; n < maxAttempts; n++ {
		ceilings = append(ceilings, c.Ceiling(n))
	}
	return ceilings
}

// Longest is the sum of the ceilings: the longest that retrying can last. Under
// full jitter it lasts half of that on average.
func (c Curve) Longest(maxAttempts int) time.Duration {
	var sum time.Duration
	for n := 1; n < maxAttempts; n++ {
		ceiling := c.Ceiling(n)
		if sum > MaxDuration-ceiling {
			return MaxDuration
		}
		sum += ceiling
	}
	return sum
}
