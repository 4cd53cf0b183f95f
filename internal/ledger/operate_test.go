package ledger_test

import (
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

func died(c event.Claim) ledger.Entry {
	return entry(c, event.Settlement{Status: event.Dead, Spent: 1, Outcome: event.OutcomeFailed, Class: event.ClassPermanent, Error: "answered 410"})
}

func orphaned(c event.Claim) ledger.Entry {
	return ledger.Entry{Fence: c.Fence, Settlement: event.Settlement{Status: event.Orphaned}}
}

// kill makes n dead deliveries.
func (b *books) kill(t testing.TB, target event.TargetID, n int) []ledger.Debt {
	t.Helper()
	debts := b.owe(t, target, n)
	for done := 0; done < n; {
		var entries []ledger.Entry
		for _, c := range b.claim(t, b.worker, target, 1000) {
			entries = append(entries, died(c))
		}
		b.record(t, b.worker, entries...)
		done += len(entries)
	}
	return debts
}

func ids(debts []ledger.Debt) []event.ID {
	out := []event.ID{}
	for _, d := range debts {
		out = append(out, d.ID)
	}
	return out
}

func most(n int) *int { return &n }

func (b *books) requeue(t testing.TB, s ledger.Selection) ledger.Tally {
	t.Helper()
	tally, _, err := b.Requeue(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return tally
}

// T58, T64, T124 in part: the whole budget, no trace of the old error, the same
// webhook-id, and owed from now.
func TestARequeuedDeliveryBeginsItsBudgetAnew(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	d := b.kill(t, target, 1)[0]
	before := b.find(t, d.ID)
	if before.Status != event.Dead || before.Last == nil {
		t.Fatalf("got %+v", before)
	}
	tally, woken, err := b.Requeue(t.Context(), ledger.Selection{IDs: []event.ID{d.ID}})
	if err != nil || tally.Done != 1 || len(tally.Skipped) != 0 || len(woken) != 1 || woken[0] != target {
		t.Fatalf("got %+v, %v, %v", tally, woken, err)
	}
	after := b.find(t, d.ID)
	switch {
	case after.Status != event.Pending || after.Attempts != 0 || after.MaxAttempts != before.MaxAttempts:
		t.Errorf("got %+v", after)
	case after.Last != nil:
		t.Errorf("shows an error of before: %+v", after.Last)
	case after.Sending != before.Sending:
		t.Error("its webhook-id is another")
	case !after.OwedSince.After(before.OwedSince) || !after.CompletedAt.IsZero():
		t.Errorf("owed since %v, completed %v", after.OwedSince, after.CompletedAt)
	}
	c := b.claim(t, b.worker, target, 1)[0]
	b.record(t, b.worker, failure(c, time.Hour))
	if now := b.find(t, d.ID); now.Status != event.Failed || now.Last.Error != "answered 500" {
		t.Errorf("after a failure: %+v", now)
	}
	if trail := b.attempts(t, d); len(trail) != 2 {
		t.Errorf("the trail has %d attempts", len(trail))
	}
}

// T55, T96, DUP-10: only what is dead, by ids and by filter; the rest is counted.
func TestRequeueTakesTheDeadAndCountsTheOthers(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	dead := b.kill(t, target, 2)
	done := b.owe(t, target, 1)
	b.record(t, b.worker, success(b.claim(t, b.worker, target, 1)[0]))
	held := b.owe(t, target, 1)
	b.claim(t, b.worker, target, 1)
	waiting := b.owe(t, target, 1)
	all := append(append(append(ids(dead), ids(done)...), ids(held)...), ids(waiting)...)
	all = append(all, event.NewID(time.Now()))
	want := map[string]int{"succeeded": 1, "claimed": 1, "pending": 1, "not_found": 1}
	for _, dry := range []bool{true, false} { // the dry one first: the other changes what it would see
		if tally := b.requeue(t, ledger.Selection{IDs: all, DryRun: dry}); !maps.Equal(tally.Skipped, want) {
			t.Errorf("dry run %t: got %+v", dry, tally)
		}
	}
	for _, d := range dead {
		if b.find(t, d.ID).Status != event.Pending {
			t.Error("not requeued")
		}
	}
	delete(want, "not_found")
	want["pending"] = 3
	if tally := b.requeue(t, ledger.Selection{Filter: ledger.Filter{Receiver: "k"}}); tally.Done != 0 || !maps.Equal(tally.Skipped, want) {
		t.Errorf("by filter: got %+v", tally)
	}
	if b.find(t, held[0].ID).Status != event.Claimed {
		t.Error("a live claim was touched")
	}
}

// T56.
func TestNoneAndAllAreDifferentThings(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	b.kill(t, target, 5)
	for name, c := range map[string]struct {
		s    ledger.Selection
		done int
	}{
		"no ids":    {ledger.Selection{IDs: []event.ID{}}, 0},
		"limit 0":   {ledger.Selection{Most: most(0)}, 0},
		"dry run":   {ledger.Selection{DryRun: true}, 5},
		"dry two":   {ledger.Selection{DryRun: true, Most: most(2)}, 2},
		"elsewhere": {ledger.Selection{Filter: ledger.Filter{Receiver: "other"}}, 0},
	} {
		if tally := b.requeue(t, c.s); tally.Done != c.done {
			t.Errorf("%s: got %+v", name, tally)
		}
	}
	if tally := b.requeue(t, ledger.Selection{Most: most(3)}); tally.Done != 3 {
		t.Errorf("limit 3: got %+v", tally)
	}
	if tally := b.requeue(t, ledger.Selection{}); tally.Done != 2 {
		t.Errorf("all: got %+v", tally)
	}
}

// T57.
func TestAnyNumberIsRequeuedAFewAtATime(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	b.kill(t, target, 3100)
	var told []int
	tally := b.requeue(t, ledger.Selection{Progress: func(n int) { told = append(told, n) }})
	if tally.Done != 3100 || tally.More || len(told) != 7 {
		t.Errorf("got %+v, told %v", tally, told)
	}
}

func TestWhatIsNotThroughInTimeSaysSo(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	b.kill(t, target, 1001)
	late := ledger.Selection{Until: time.Now().Add(-time.Second)}
	total := 0
	for range 3 {
		tally := b.requeue(t, late)
		total += tally.Done
		if !tally.More {
			t.Errorf("%d done and no more", total)
		}
	}
	if tally := b.requeue(t, late); total != 1001 || tally.More {
		t.Errorf("%d done, then %+v", total, tally)
	}
}

// An orphan is owed again once its receiver is, and only where it is meant by name.
func TestAnOrphanIsRequeuedOnceItsReceiverIsBack(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	d := b.owe(t, target, 1)[0]
	b.record(t, b.worker, orphaned(b.claim(t, b.worker, target, 1)[0]))
	b.exec(t, `UPDATE eventsvc.receivers SET deleted_at = now()`)
	if tally := b.requeue(t, ledger.Selection{IDs: []event.ID{d.ID}}); tally.Done != 0 || tally.Skipped["receiver_gone"] != 1 {
		t.Errorf("while it is gone: %+v", tally)
	}
	b.exec(t, `UPDATE eventsvc.receivers SET deleted_at = NULL`)
	if tally := b.requeue(t, ledger.Selection{}); tally.Done != 0 || tally.Skipped["orphaned"] != 1 {
		t.Errorf("all that is dead: %+v", tally)
	}
	if tally := b.requeue(t, ledger.Selection{Filter: ledger.Filter{Status: event.Orphaned}}); tally.Done != 1 {
		t.Errorf("by its status: %+v", tally)
	}
	if b.find(t, d.ID).Status != event.Pending {
		t.Error("not requeued")
	}
}

// T65: pending and failed, and of a cancel and a claim exactly one.
func TestCancelTakesWhatNobodyHolds(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	failed := b.owe(t, target, 1)[0]
	b.record(t, b.worker, failure(b.claim(t, b.worker, target, 1)[0], time.Hour))
	held := b.owe(t, target, 1)[0]
	b.claim(t, b.worker, target, 1)
	waiting := b.owe(t, target, 1)[0]
	tally, err := b.Cancel(t.Context(), ledger.Selection{})
	if err != nil || tally.Done != 2 || !maps.Equal(tally.Skipped, map[string]int{"claimed": 1}) {
		t.Errorf("got %+v, %v", tally, err)
	}
	for _, d := range []ledger.Debt{failed, waiting} {
		if now := b.find(t, d.ID); now.Status != event.Cancelled || now.CompletedAt.IsZero() {
			t.Errorf("got %+v", now)
		}
	}
	if b.find(t, held.ID).Status != event.Claimed {
		t.Error("a claim was cancelled")
	}
}

// T65.
func TestOfACancelAndAClaimExactlyOneWins(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	const rounds = 40
	debts := b.owe(t, target, rounds)
	claimed := map[event.ID]bool{}
	cancelled := 0
	for i := range rounds {
		var both sync.WaitGroup
		both.Go(func() {
			for _, c := range b.claim(t, b.worker, target, 1) {
				claimed[c.Delivery] = true
			}
		})
		both.Go(func() {
			tally, err := b.Cancel(t.Context(), ledger.Selection{IDs: []event.ID{debts[i].ID}})
			if err != nil {
				t.Error(err)
			}
			cancelled += tally.Done
		})
		both.Wait()
		if status := b.find(t, debts[i].ID).Status; claimed[debts[i].ID] == (status == event.Cancelled) {
			t.Fatalf("claimed: %v, and it is %s", claimed[debts[i].ID], status)
		}
	}
	if len(claimed)+cancelled < rounds {
		t.Errorf("%d claimed and %d cancelled of %d", len(claimed), cancelled, rounds)
	}
}

func TestClaimingOneTakesWhatNobodyHoldsDueOrNot(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	d := b.owe(t, target, 1, func(d *ledger.Debt) { d.Due, d.Format = time.Hour, event.FormatRaw })[0]
	c, revision, err := b.ClaimOne(t.Context(), b.worker, d.ID, time.Minute)
	if err != nil || c.Delivery != d.ID || c.TargetID != target || c.Format != event.FormatRaw || revision == 0 || c.Lease() != time.Minute {
		t.Fatalf("got %+v, %d, %v", c, revision, err)
	}
	if _, _, err := b.ClaimOne(t.Context(), b.worker, d.ID, time.Minute); !errors.Is(err, ledger.ErrClaimed) {
		t.Errorf("again: %v", err)
	}
	b.record(t, b.worker, success(c))
	if _, _, err := b.ClaimOne(t.Context(), b.worker, d.ID, time.Minute); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("ended: %v", err)
	}
	if _, _, err := b.TargetOf(t.Context(), event.NewID(time.Now())); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

// T70 in part: the newest success of a target only moves forward.
func TestAReportMovesTheLastSuccessForwardOnly(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	last := func() (at time.Time) {
		if err := b.pool.QueryRow(t.Context(), `SELECT succeeded_at FROM eventsvc.last_success WHERE target_id = $1`, int32(target)).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	report := func(ago time.Duration) {
		if err := b.Report(t.Context(), b.worker, []string{"mail"}, map[event.TargetID]time.Duration{target: ago}); err != nil {
			t.Fatal(err)
		}
	}
	report(time.Hour)
	first := last()
	report(2 * time.Hour)
	if !last().Equal(first) {
		t.Error("moved back")
	}
	report(0)
	if !last().After(first) {
		t.Error("did not move forward")
	}
}

// A removal neither waits for rows that others hold nor keeps what a live claim has.
func TestAbandoningWaitsForNobody(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	b.owe(t, target, 3)
	held := b.claim(t, b.worker, target, 1)[0]
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM eventsvc.owed WHERE claimed_by <> 0 OR id = (SELECT max(id::text)::uuid FROM eventsvc.owed) FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if ended, err := b.Abandon(t.Context(), []event.TargetID{target}, event.Cancelled); err != nil || ended != 1 {
		t.Errorf("ended %d, %v; one is claimed, one is locked", ended, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ended, err := b.Abandon(t.Context(), []event.TargetID{target}, event.Cancelled); err != nil || ended != 1 {
		t.Errorf("ended %d, %v", ended, err)
	}
	if b.find(t, held.Delivery).Status != event.Claimed {
		t.Error("a live claim was ended")
	}
}

// P3: what is left of a receiver that was paused, in a lane that is paused, and deleted, is
// claimed, so that it can be orphaned.
func TestWhatIsLeftOfAPausedReceiverThatIsGoneIsClaimed(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	b.owe(t, target, 1)
	b.exec(t, `UPDATE eventsvc.lanes SET paused_at = now()`)
	if got := b.claim(t, b.worker, target, 1); len(got) != 0 {
		t.Fatal("claimed while its lane is paused")
	}
	b.exec(t, `UPDATE eventsvc.receivers SET deleted_at = now()`)
	if got := b.claim(t, b.worker, target, 1); len(got) != 1 {
		t.Error("owed for ever")
	}
}

func TestOneIDTwiceIsOne(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	d := b.kill(t, target, 1)[0]
	if tally := b.requeue(t, ledger.Selection{IDs: []event.ID{d.ID, d.ID}}); tally.Done != 1 || len(tally.Skipped) != 0 {
		t.Errorf("got %+v", tally)
	}
}
