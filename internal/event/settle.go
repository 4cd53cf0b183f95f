package event

import (
	"fmt"
	"time"
)

// Terms are what a receiver declared about trying again. They are read when an
// attempt ends, so that a changed curve applies to deliveries under way; only
// max_attempts is copied onto the row, so that lowering it kills nothing in flight.
type Terms struct {
	Curve
	// CountDeferrals false lets a 429 or 503 with Retry-After spend no attempt.
	CountDeferrals bool
	// GiveUpAfter bounds uncounted deferrals, measured from when the delivery became
	// owed. Zero is no bound, and then deferrals count.
	GiveUpAfter time.Duration
	// MaxRetryAfter clamps what a receiver may ask for.
	MaxRetryAfter time.Duration
}

// Settlement is what becomes of a delivery's row.
type Settlement struct {
	Status Status // Succeeded or Dead end it; Failed and Pending put it back
	Spent  int    // 1 when the attempt counts, else 0
	// Wait is, for a row that goes back, how long from the database's now; Until, when
	// set, is the moment instead, and then the due time moves too.
	Wait  time.Duration
	Until time.Time

	Outcome Outcome
	Class   Class
	Error   string

	// Pause is, after an uncounted deferral, how long to leave the lane (or target)
	// alone in this process.
	Pause time.Duration
	// Clamped is what the receiver asked for, where that was more than is allowed.
	Clamped time.Duration
	// Unbounded says that a deferral was counted only because the receiver declares
	// no give_up_after.
	Unbounded bool
}

// Settle judges one attempt. It is the whole of the contract's table, section 4,
// and pure: owed is how long the delivery has been owed, by the database's clock,
// and draw is a random number in [0, 1).
func Settle(c *Claim, t Terms, v *Verdict, owed time.Duration, draw float64) Settlement {
	switch v.Ruling {
	case Success:
		return Settlement{Status: Succeeded, Spent: 1, Outcome: OutcomeSucceeded}
	case NotYet:
		return Settlement{Status: Pending, Until: v.Until, Outcome: OutcomeNotYet, Error: v.Reason}
	case Permanent:
		return Settlement{Status: Dead, Spent: 1, Outcome: OutcomeFailed, Class: v.Class, Error: v.Reason}
	case RetryAfter:
		return settleRetryAfter(c, t, v, owed, draw)
	default:
		return counted(c, v, t.Wait(c.Attempt(), draw), OutcomeFailed)
	}
}

func settleRetryAfter(c *Claim, t Terms, v *Verdict, owed time.Duration, draw float64) Settlement {
	asked := min(v.After, t.MaxRetryAfter)
	var s Settlement
	switch uncounted := v.Uncounted && asked > 0; {
	case uncounted && t.GiveUpAfter > 0 && owed >= t.GiveUpAfter:
		s = Settlement{Status: Dead, Outcome: OutcomeDeferred, Class: ClassGaveUp,
			Error: fmt.Sprintf("%s; owed for %s, which reaches give_up_after %s", v.Reason, owed.Round(time.Second), Duration(t.GiveUpAfter))}
	case uncounted && t.GiveUpAfter > 0:
		// Jitter only ever adds: never earlier than asked, and rows deferred together
		// do not come back together.
		wait := min(asked+time.Duration(float64(asked)*draw), t.MaxRetryAfter)
		s = Settlement{Status: Failed, Wait: wait, Pause: asked, Outcome: OutcomeDeferred, Class: ClassDeferred, Error: v.Reason}
	default:
		s = counted(c, v, asked, OutcomeDeferred)
		s.Unbounded = uncounted
	}
	if v.After > t.MaxRetryAfter {
		s.Clamped = v.After
	}
	return s
}

// counted spends the attempt: the row goes back for wait, or is dead once its
// budget is gone.
func counted(c *Claim, v *Verdict, wait time.Duration, o Outcome) Settlement {
	s := Settlement{Status: Failed, Spent: 1, Wait: wait, Outcome: o, Class: v.Class, Error: v.Reason}
	if c.Attempt() >= c.MaxAttempts {
		s.Status = Dead
	}
	return s
}

// Result is what the hooks' Exit and the failure log are told: the attempt, the
// verdict, and what it was recorded as.
type Result struct {
	Context
	Verdict    Verdict
	Settlement Settlement
	// Recorded is false when the claim was lost before the verdict could be written:
	// then nothing was recorded, and whoever holds the row now tells of it.
	Recorded bool
}
