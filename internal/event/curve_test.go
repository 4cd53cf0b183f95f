package event

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// almostOne is the greatest number that a draw can be.
var almostOne = math.Nextafter(1, 0)

func TestTheDocumentedCurveLastsHalfItsLongestOnAverage(t *testing.T) {
	c := Curve{Base: 120 * time.Second, Cap: 30 * time.Minute}
	var mean time.Duration
	for attempt := 1; attempt < 10; attempt++ {
		mean += c.Wait(attempt, 0.5)
	}
	if mean != 5_400*time.Second {
		t.Errorf("got %v, want 5,400 s", mean)
	}
}

func TestAMillionAttemptsNeitherOverflowNorShrinkTheCeiling(t *testing.T) {
	for _, c := range []Curve{
		{2 * time.Second, time.Hour},
		{120 * time.Second, 30 * time.Minute},
		{1, MaxDuration},
		{MaxDuration, MaxDuration},
		{2, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64},
		{time.Hour, time.Second},
	} {
		var last time.Duration
		for attempt := 0; attempt <= 1_000_000; attempt += step(attempt) {
			ceiling := c.Ceiling(attempt)
			if ceiling < last || ceiling <= 0 || ceiling > c.Cap {
				t.Fatalf("%v: the ceiling after attempt %d is %v, before it %v", c, attempt, ceiling, last)
			}
			last = ceiling
		}
		if last != c.Cap {
			t.Errorf("%v ends at %v", c, last)
		}
	}
}

// step is dense where the ceiling still grows, and reaches a million exactly.
func step(attempt int) int {
	if attempt < 1000 {
		return 1
	}
	return 1000
}

func TestTheCeilingIsTheBaseDoubledForEachAttemptUpToTheCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Curve{
			Base: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			Cap:  time.Duration(rapid.Int64Range(1, int64(MaxDuration)).Draw(t, "cap")),
		}
		attempt := rapid.IntRange(1, 20).Draw(t, "attempt")
		want := min(c.Base<<(attempt-1), c.Cap)
		if got := c.Ceiling(attempt); got != want {
			t.Errorf("%v: the ceiling after %d is %v, want %v", c, attempt, got, want)
		}
	})
}

func TestEveryDrawFallsInTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ceiling := time.Duration(rapid.Int64Range(1, int64(MaxDuration)).Draw(t, "ceiling"))
		draw := rapid.Float64Range(0, almostOne).Draw(t, "draw")
		if wait := (Curve{ceiling, ceiling}).Wait(1, draw); wait < 0 || wait > ceiling {
			t.Errorf("draw %v of %v is %v", draw, ceiling, wait)
		}
	})
}

func TestTheWholeWindowIsUsed(t *testing.T) {
	c := Curve{2 * time.Second, time.Hour}
	if low, high := c.Wait(1, 0), c.Wait(1, almostOne); low != 0 || high < 2*time.Second-1 {
		t.Errorf("the first window is %v to %v", low, high)
	}
}

func TestTheLongestSpanIsTheSumOfTheCeilings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Curve{
			Base: time.Duration(rapid.Int64Range(1, int64(day)).Draw(t, "base")),
			Cap:  time.Duration(rapid.Int64Range(1, int64(day)).Draw(t, "cap")),
		}
		attempts := rapid.IntRange(-1, 1000).Draw(t, "attempts")
		ceilings := c.Ceilings(attempts)
		var sum time.Duration
		for _, ceiling := range ceilings {
			sum += ceiling
		}
		if len(ceilings) != max(attempts-1, 0) || c.Longest(attempts) != sum {
			t.Errorf("%v with %d attempts: %d ceilings, %v in all, longest %v", c, attempts, len(ceilings), sum, c.Longest(attempts))
		}
	})
}

func TestTheLongestSpanStopsAtTheLongestDuration(t *testing.T) {
	c := Curve{MaxDuration, MaxDuration}
	if got := c.Longest(2); got != MaxDuration {
		t.Errorf("one wait: %v", got)
	}
	if got := c.Longest(1000); got != MaxDuration {
		t.Errorf("a thousand attempts: %v", got)
	}
}
