package ledger_test

import (
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// claimFresh are the ids out of debts that a worker was given.
func (b *books) claimFresh(t testing.TB, worker event.WorkerID, debts ...ledger.Debt) map[event.ID]event.Claim {
	t.Helper()
	wanted := make([]ledger.Fresh, len(debts))
	for i, d := range debts {
		wanted[i] = ledger.Fresh{ID: d.ID, Lease: time.Minute}
	}
	claimed, err := b.ClaimFresh(t.Context(), worker, wanted)
	if err != nil {
		t.Fatal(err)
	}
	got := map[event.ID]event.Claim{}
	for _, c := range claimed.Claims {
		got[c.Delivery] = *c
	}
	return got
}

// P5: what another worker has, or had, is not fresh.
func TestWhatWasJustOwedIsClaimedByItsIDsOnce(t *testing.T) {
	b := open(t)
	second, err := b.Enroll(t.Context(), "eager:w1")
	if err != nil {
		t.Fatal(err)
	}
	target := b.target(t, "k")
	debts := b.owe(t, target, 3)
	mine := b.claimFresh(t, second, debts[0], debts[1])
	if len(mine) != 2 || mine[debts[0].ID].TargetID != target || mine[debts[0].ID].LeaseUntil.Sub(mine[debts[0].ID].ClaimedAt) != time.Minute || string(mine[debts[1].ID].Event.Data) != "{}" {
		t.Fatalf("got %+v", mine)
	}
	if theirs := b.claim(t, b.worker, target, 10); len(theirs) != 1 || theirs[0].Delivery != debts[2].ID {
		t.Errorf("a relay got %+v", theirs)
	}
	if again := b.claimFresh(t, second, debts...); len(again) != 0 {
		t.Errorf("claimed twice: %+v", again)
	}
	failed := event.Settlement{Status: event.Failed, Outcome: event.OutcomeFailed, Spent: 1, Error: "no"}
	recorded, _, err := b.Record(t.Context(), second, []ledger.Entry{entry(mine[debts[0].ID], failed)})
	if err != nil || !recorded[0] {
		t.Fatal(recorded, err)
	}
	if again := b.claimFresh(t, second, debts[0]); len(again) != 0 {
		t.Errorf("one that was tried: %+v", again)
	}
}

func TestWhatIsPausedOrNotDueIsNotClaimedFresh(t *testing.T) {
	b := open(t)
	debts := b.owe(t, b.target(t, "due"), 1, func(d *ledger.Debt) { d.Due = time.Hour })
	debts = append(debts, b.owe(t, b.target(t, "k"), 1)...)
	for _, table := range []string{"targets", "receivers", "lanes"} {
		b.exec(t, `UPDATE eventsvc.`+table+` SET paused_at = now()`)
		if got := b.claimFresh(t, b.worker, debts...); len(got) != 0 {
			t.Errorf("with paused %s: %+v", table, got)
		}
		b.exec(t, `UPDATE eventsvc.`+table+` SET paused_at = NULL`)
	}
	if got := b.claimFresh(t, b.worker, debts...); len(got) != 1 || got[debts[1].ID].Delivery != debts[1].ID {
		t.Errorf("got %+v", got)
	}
}

// A deferral that spent nothing is an attempt too, and so is what ended without one.
func TestUntriedAreThoseOfWhichNoAttemptWasRecorded(t *testing.T) {
	b := open(t)
	untried := func(d ledger.Debt) bool {
		ids, err := b.Untried(t.Context(), d.EventID, []event.ID{d.ID})
		if err != nil {
			t.Fatal(err)
		}
		return len(ids) == 1
	}
	for name, s := range map[string]event.Settlement{
		"succeeded": {Status: event.Succeeded, Outcome: event.OutcomeSucceeded, Spent: 1},
		"failed":    {Status: event.Failed, Outcome: event.OutcomeFailed, Spent: 1, Wait: time.Hour},
		"dead":      {Status: event.Dead, Outcome: event.OutcomeFailed, Spent: 1},
		"deferred":  {Status: event.Failed, Outcome: event.OutcomeDeferred, Wait: time.Hour},
		"not yet":   {Status: event.Pending, Outcome: event.OutcomeNotYet, Until: time.Now().Add(time.Hour)},
		"orphaned":  {Status: event.Orphaned},
	} {
		d := b.owe(t, b.target(t, name), 1)[0]
		if !untried(d) {
			t.Errorf("%s: tried while it is pending", name)
		}
		c := b.claimFresh(t, b.worker, d)[d.ID]
		if !untried(d) {
			t.Errorf("%s: tried while it is claimed", name)
		}
		if recorded, _, err := b.Record(t.Context(), b.worker, []ledger.Entry{entry(c, s)}); err != nil || !recorded[0] {
			t.Fatal(name, recorded, err)
		}
		if untried(d) {
			t.Errorf("%s: not tried once it was recorded", name)
		}
	}
}
