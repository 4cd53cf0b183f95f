package event

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func deferral(after time.Duration) *Verdict {
	return &Verdict{Ruling: RetryAfter, After: after, Uncounted: true, Class: ClassRetryAfter, Reason: "429"}
}

func TestABudgetOfOneSurvivesEveryUncountedDeferral(t *testing.T) {
	terms := Terms{GiveUpAfter: day, MaxRetryAfter: day}
	c := &Claim{MaxAttempts: 1}
	for n := range 2 {
		s := Settle(c, terms, deferral(time.Minute), time.Duration(n)*time.Minute, 0)
		if s.Status != Failed || s.Spent != 0 {
			t.Errorf("deferral %d: %+v", n+1, s)
		}
		c.Attempts += s.Spent
	}
	if s := Settle(c, terms, &Verdict{Ruling: Failure}, time.Hour, 0); s.Status != Dead {
		t.Errorf("the failure after them: %+v", s)
	}
}

func TestAnUnboundedDeferralSpendsTheLastAttemptToo(t *testing.T) {
	s := Settle(&Claim{MaxAttempts: 1}, Terms{MaxRetryAfter: day}, deferral(time.Minute), 0, 0)
	if s.Status != Dead || s.Spent != 1 || !s.Unbounded || s.Pause != 0 {
		t.Errorf("got %+v", s)
	}
}

// The warning of a clamp names both numbers, whatever becomes of the row.
func TestAClampIsToldWhateverBecomesOfTheRow(t *testing.T) {
	bounded := Terms{GiveUpAfter: 2 * day, MaxRetryAfter: day}
	counted := &Verdict{Ruling: RetryAfter, After: 3 * day}
	for name, c := range map[string]struct {
		claim   Claim
		verdict *Verdict
		owed    time.Duration
		status  Status
	}{
		"counted":        {Claim{MaxAttempts: 9}, counted, 0, Failed},
		"the last":       {Claim{MaxAttempts: 1}, counted, 0, Dead},
		"deferred":       {Claim{MaxAttempts: 1}, deferral(3 * day), 0, Failed},
		"giving up":      {Claim{MaxAttempts: 1}, deferral(3 * day), 2 * day, Dead},
		"counted at max": {Claim{MaxAttempts: 9}, counted, 9 * day, Failed},
	} {
		s := Settle(&c.claim, bounded, c.verdict, c.owed, almostOne)
		if s.Clamped != 3*day || s.Status != c.status || s.Wait > day || s.Pause > day {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// P8: jitter is added for every draw there is, and the sum stays under the clamp.
func TestADeferralKeepsItsWindowAtBothEndsOfTheDraw(t *testing.T) {
	terms := Terms{GiveUpAfter: day, MaxRetryAfter: day}
	for _, asked := range []time.Duration{1, time.Second, 13 * time.Hour, day} {
		for _, draw := range []float64{0, 0.5, almostOne} {
			s := Settle(&Claim{MaxAttempts: 1}, terms, deferral(asked), 0, draw)
			if s.Wait < asked || s.Wait > 2*asked || s.Wait > day || s.Clamped != 0 {
				t.Errorf("asked %v, draw %v: %+v", asked, draw, s)
			}
		}
	}
}

func TestAPermanentVerdictNeedsNoSpentBudget(t *testing.T) {
	for _, attempts := range []int{0, 5, 999} {
		s := Settle(&Claim{Attempts: attempts, MaxAttempts: 1000}, Terms{Curve: Curve{1, 1}}, &Verdict{Ruling: Permanent, Class: ClassPermanent}, 0, 0)
		if s.Status != Dead || s.Spent != 1 || s.Class != ClassPermanent {
			t.Errorf("after %d attempts: %+v", attempts, s)
		}
	}
}

// A lowered budget, or a row from before it was lowered, must not be tried for ever.
func TestABudgetThatIsOverspentIsDead(t *testing.T) {
	s := Settle(&Claim{Attempts: 7, MaxAttempts: 3}, Terms{Curve: Curve{1, 1}}, &Verdict{Ruling: Failure}, 0, 0)
	if s.Status != Dead {
		t.Errorf("got %+v", s)
	}
}

// What holds of every settlement, whatever the receiver says (P3, P8, P10).
func TestEverySettlementKeepsTheLaws(t *testing.T) {
	spans := rapid.Int64Range(0, int64(MaxDuration))
	rapid.Check(t, func(t *rapid.T) {
		c := &Claim{Attempts: rapid.IntRange(0, 30).Draw(t, "attempts"), MaxAttempts: rapid.IntRange(1, 30).Draw(t, "budget")}
		terms := Terms{
			Curve:         Curve{time.Duration(1 + spans.Draw(t, "base")), time.Duration(1 + spans.Draw(t, "cap"))},
			GiveUpAfter:   time.Duration(spans.Draw(t, "give up")),
			MaxRetryAfter: time.Duration(1 + spans.Draw(t, "max retry after")),
		}
		v := &Verdict{
			Ruling:    rapid.SampledFrom([]Ruling{Success, Failure, Permanent, RetryAfter, NotYet}).Draw(t, "ruling"),
			After:     time.Duration(spans.Draw(t, "after")),
			Uncounted: rapid.Bool().Draw(t, "uncounted"),
			Class:     ClassHTTP5xx,
			Reason:    "because",
		}
		s := Settle(c, terms, v, time.Duration(spans.Draw(t, "owed")), rapid.Float64Range(0, almostOne).Draw(t, "draw"))
		last := c.Attempt() >= c.MaxAttempts
		switch {
		case s.Spent != 0 && s.Spent != 1:
			t.Errorf("spends %d", s.Spent)
		case s.Wait < 0 || s.Wait > max(terms.Cap, terms.MaxRetryAfter):
			t.Errorf("waits %v", s.Wait)
		case (s.Status == Succeeded) != (v.Ruling == Success):
			t.Errorf("%s is %s", v.Ruling, s.Status)
		case s.Status == Failed && s.Spent == 1 && last:
			t.Errorf("goes back with its budget spent: %+v", s)
		case s.Status == Dead && v.Ruling != Permanent && !last && s.Class != ClassGaveUp:
			t.Errorf("is dead before its time: %+v", s)
		case v.Ruling == RetryAfter && s.Status == Failed && s.Wait < min(v.After, terms.MaxRetryAfter):
			t.Errorf("comes back after %v, asked for %v", s.Wait, v.After)
		case s.Pause > 0 && s.Spent != 0:
			t.Errorf("pauses though it counts: %+v", s)
		case v.Failed() && (s.Class == "" || s.Error == ""):
			t.Errorf("failed without saying why: %+v", s)
		case !v.Failed() && s.Class != "":
			t.Errorf("has a class though nothing failed: %+v", s)
		}
	})
}
