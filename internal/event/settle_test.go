package event

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const day = 24 * time.Hour

func seconds(n ...int) (all []time.Duration) {
	for _, s := range n {
		all = append(all, time.Duration(s)*time.Second)
	}
	return all
}

// The numbers of the source and of the contract.
func TestCurvesSpanWhatIsDocumented(t *testing.T) {
	for _, c := range []struct {
		curve    Curve
		attempts int
		longest  time.Duration
	}{
		{Curve{120 * time.Second, 30 * time.Minute}, 10, 10_800 * time.Second},
		{Curve{2 * time.Second, time.Hour}, 8, 254 * time.Second},
		{Curve{2 * time.Second, time.Hour}, 5, 30 * time.Second},
		{Curve{2 * time.Second, time.Hour}, 20, 32_894 * time.Second},
		{Curve{2 * time.Second, time.Hour}, 1, 0},
	} {
		if got := c.curve.Longest(c.attempts); got != c.longest {
			t.Errorf("%v with %d attempts lasts %v, want %v", c.curve, c.attempts, got, c.longest)
		}
	}
	want := seconds(120, 240, 480, 960, 1800, 1800, 1800, 1800, 1800)
	for i, got := range (Curve{120 * time.Second, 30 * time.Minute}).Ceilings(10) {
		if got != want[i] {
			t.Errorf("ceiling %d is %v, want %v", i+1, got, want[i])
		}
	}
}

func TestNoAttemptNumberOverflowsTheCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Curve{Base: time.Duration(rapid.Int64Range(1, int64(MaxDuration)).Draw(t, "base")), Cap: time.Duration(rapid.Int64Range(1, int64(MaxDuration)).Draw(t, "cap"))}
		n := rapid.IntRange(-5, 1_000_000).Draw(t, "attempt")
		ceiling, next := c.Ceiling(n), c.Ceiling(n+1)
		if ceiling <= 0 || ceiling > c.Cap || next < ceiling {
			t.Errorf("%v: the ceiling after %d is %v, after the next %v", c, n, ceiling, next)
		}
		if wait := c.Wait(n, rapid.Float64Range(0, 0.999999).Draw(t, "draw")); wait < 0 || wait > ceiling {
			t.Errorf("%v: waits %v of %v", c, wait, ceiling)
		}
	})
}

// Contract, section 4, whole.
func TestSettleJudgesAsTheContractSays(t *testing.T) {
	terms := Terms{Curve: Curve{2 * time.Second, time.Hour}, CountDeferrals: true, MaxRetryAfter: day}
	bounded := terms
	bounded.GiveUpAfter = 2 * day
	until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	after := func(d time.Duration, uncounted bool) Verdict {
		return Verdict{Ruling: RetryAfter, After: d, Uncounted: uncounted, Class: ClassRetryAfter, Reason: "429"}
	}
	for name, c := range map[string]struct {
		attempts, budget int
		terms            Terms
		verdict          Verdict
		owed             time.Duration
		draw             float64
		want             Settlement
	}{
		"success":           {0, 3, terms, Verdict{Ruling: Success}, 0, 0, Settlement{Status: Succeeded, Spent: 1, Outcome: OutcomeSucceeded}},
		"failure":           {2, 9, terms, Verdict{Ruling: Failure, Class: ClassTimeout, Reason: "slow"}, 0, 0.5, Settlement{Status: Failed, Spent: 1, Wait: 4 * time.Second, Outcome: OutcomeFailed, Class: ClassTimeout, Error: "slow"}},
		"last failure":      {2, 3, terms, Verdict{Ruling: Failure, Class: ClassDNS}, 0, 0, Settlement{Status: Dead, Spent: 1, Outcome: OutcomeFailed, Class: ClassDNS}},
		"permanent":         {0, 9, terms, Verdict{Ruling: Permanent, Class: ClassPermanent, Reason: "gone"}, 0, 0, Settlement{Status: Dead, Spent: 1, Outcome: OutcomeFailed, Class: ClassPermanent, Error: "gone"}},
		"retry after":       {0, 9, terms, after(time.Minute, false), 0, 0.9, Settlement{Status: Failed, Spent: 1, Wait: time.Minute, Outcome: OutcomeDeferred, Class: ClassRetryAfter, Error: "429"}},
		"retry after, last": {8, 9, terms, after(time.Minute, false), 0, 0, Settlement{Status: Dead, Spent: 1, Wait: time.Minute, Outcome: OutcomeDeferred, Class: ClassRetryAfter, Error: "429"}},
		"at the clamp":      {0, 9, terms, after(day, false), 0, 0, Settlement{Status: Failed, Spent: 1, Wait: day, Outcome: OutcomeDeferred, Class: ClassRetryAfter, Error: "429"}},
		"clamped":           {0, 9, terms, after(day+1, false), 0, 0, Settlement{Status: Failed, Spent: 1, Wait: day, Outcome: OutcomeDeferred, Class: ClassRetryAfter, Error: "429", Clamped: day + 1}},
		"not by the cap":    {0, 9, terms, after(2*time.Hour, false), 0, 0, Settlement{Status: Failed, Spent: 1, Wait: 2 * time.Hour, Outcome: OutcomeDeferred, Class: ClassRetryAfter, Error: "429"}},
		"deferral":          {0, 1, bounded, after(time.Minute, true), 0, 0.5, Settlement{Status: Failed, Wait: 90 * time.Second, Pause: time.Minute, Outcome: OutcomeDeferred, Class: ClassDeferred, Error: "429"}},
		"deferral of zero":  {0, 9, bounded, after(0, true), 0, 0.5, Settlement{Status: Failed, Spent: 1, Outcome: OutcomeDeferred, Class: ClassRetryAfter, Error: "429"}},
		"before giving up":  {0, 9, bounded, after(time.Minute, true), 2*day - time.Microsecond, 0, Settlement{Status: Failed, Wait: time.Minute, Pause: time.Minute, Outcome: OutcomeDeferred, Class: ClassDeferred, Error: "429"}},
		"giving up":         {0, 9, bounded, after(time.Minute, true), 2 * day, 0, Settlement{Status: Dead, Outcome: OutcomeDeferred, Class: ClassGaveUp, Error: "429; owed for 48h0m0s, which reaches give_up_after 2d"}},
		"failing past it":   {0, 9, bounded, Verdict{Ruling: Failure}, 9 * day, 0, Settlement{Status: Failed, Spent: 1, Outcome: OutcomeFailed}},
		"unbounded":         {0, 9, terms, after(time.Minute, true), 0, 0.5, Settlement{Status: Failed, Spent: 1, Wait: time.Minute, Outcome: OutcomeDeferred, Class: ClassRetryAfter, Error: "429", Unbounded: true}},
		"not yet":           {4, 5, bounded, Verdict{Ruling: NotYet, Until: until, Reason: "later"}, 9 * day, 0, Settlement{Status: Pending, Until: until, Outcome: OutcomeNotYet, Error: "later"}},
	} {
		claim := &Claim{Attempts: c.attempts, MaxAttempts: c.budget}
		if got := Settle(claim, c.terms, &c.verdict, c.owed, c.draw); got != c.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, c.want)
		}
	}
}

// P8: jitter only ever adds to what the receiver asked.
func TestADeferralIsNeverEarlierThanAskedNorLaterThanTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked := time.Duration(rapid.Int64Range(1, int64(3*day)).Draw(t, "asked"))
		terms := Terms{GiveUpAfter: day, MaxRetryAfter: day}
		v := Verdict{Ruling: RetryAfter, After: asked, Uncounted: true}
		s := Settle(&Claim{MaxAttempts: 1}, terms, &v, 0, rapid.Float64Range(0, 0.999999).Draw(t, "draw"))
		allowed := min(asked, day)
		if s.Spent != 0 || s.Status != Failed || s.Wait < allowed || s.Wait > min(2*allowed, day) || s.Pause != allowed {
			t.Errorf("asked %v: %+v", asked, s)
		}
	})
}

func TestTheFailureLogTellsEverythingButSuccessAndNotYet(t *testing.T) {
	for ruling, want := range map[Ruling]bool{Success: false, NotYet: false, Failure: true, Permanent: true, RetryAfter: true} {
		if got := (&Verdict{Ruling: ruling}).Failed(); got != want {
			t.Errorf("%s: %v", ruling, got)
		}
	}
}
