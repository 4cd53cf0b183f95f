package ledger_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

func TestClaimBringsEverythingAnAttemptNeeds(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1)[0]
	c := b.claim(t, b.worker, target, 10)
	if len(c) != 1 || c[0].Delivery != debt.ID || c[0].Event.ID != debt.EventID || c[0].Event.Type != "a.b" || string(c[0].Event.Data) != "{}" ||
		c[0].TargetID != target || c[0].Attempt() != 1 || c[0].MaxAttempts != 3 || c[0].Sending != 1 || c[0].Lease() != time.Minute {
		t.Errorf("got %+v for %+v", c, debt)
	}
}

// P5.
func TestTwoWorkersNeverClaimOneDelivery(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	b.owe(t, target, 400)
	var mu sync.Mutex
	seen := map[event.ID]int{}
	var all sync.WaitGroup
	for range 8 {
		worker, err := b.Enroll(t.Context(), "same name")
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for {
				claimed, err := b.Claim(t.Context(), worker, 10, []ledger.Quota{{Target: target, N: 7, Lease: time.Minute}})
				if err != nil {
					t.Error(err)
				}
				if err != nil || len(claimed.Claims) == 0 {
					return
				}
				mu.Lock()
				for _, c := range claimed.Claims {
					seen[c.Delivery]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != 400 {
		t.Errorf("%d deliveries were claimed, want 400", len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%v was claimed %d times", id, n)
		}
	}
}

func TestClaimsComeInOrderOfAvailabilityThenID(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debts := b.owe(t, target, 6)
	// The oldest three become the newest.
	for _, d := range debts[:3] {
		b.exec(t, `UPDATE eventsvc.owed SET available_at = available_at - interval '1 s' WHERE id <> $1 AND id > $1`, [16]byte(d.ID))
	}
	first, second := b.claim(t, b.worker, target, 4), b.claim(t, b.worker, target, 4)
	if len(first) != 4 || len(second) != 2 {
		t.Fatalf("claimed %d and %d, want 4 and 2", len(first), len(second))
	}
	all := append(first, second...)
	for i := range all[1:] {
		x, y := all[i], all[i+1]
		if c := x.AvailableAt.Compare(y.AvailableAt); c > 0 || c == 0 && bytes.Compare(x.Delivery[:], y.Delivery[:]) > 0 {
			t.Errorf("%v at %v came before %v at %v", x.Delivery, x.AvailableAt, y.Delivery, y.AvailableAt)
		}
	}
}

func TestAQuotaIsNeverExceededEvenWithWrongStatistics(t *testing.T) {
	b := open(t)
	target, other := b.target(t, "k"), b.target(t, "l")
	b.exec(t, `ANALYZE eventsvc.owed`) // while it is empty
	b.owe(t, target, 500)
	b.owe(t, other, 3)
	claimed, err := b.Claim(t.Context(), b.worker, 10, []ledger.Quota{{Target: target, N: 5, Lease: time.Minute}, {Target: other, N: 5, Lease: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[event.TargetID]int{}
	for _, c := range claimed.Claims {
		got[c.TargetID]++
		if want := map[event.TargetID]time.Duration{target: time.Minute, other: time.Hour}[c.TargetID]; c.Lease() != want {
			t.Errorf("a lease of %v, want %v", c.Lease(), want)
		}
	}
	if got[target] != 5 || got[other] != 3 {
		t.Errorf("claimed %v, want 5 of the one and 3 of the other", got)
	}
}

func TestScheduledWorkIsNotClaimedBeforeItIsDue(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1, func(d *ledger.Debt) { d.Due = time.Hour })[0]
	if c := b.claim(t, b.worker, target, 1); len(c) != 0 {
		t.Fatalf("claimed %v, an hour early", c)
	}
	if d := b.find(t, debt.ID); d.DueAt.IsZero() || !d.DueAt.Equal(d.AvailableAt) {
		t.Errorf("due at %v, available at %v", d.DueAt, d.AvailableAt)
	}
	b.exec(t, `UPDATE eventsvc.owed SET available_at = now()`)
	if c := b.claim(t, b.worker, target, 1); len(c) != 1 {
		t.Error("not claimed once it was due")
	}
}

// No claim that begins after a pause has committed takes a row.
func TestPausedWorkIsNotClaimed(t *testing.T) {
	for _, table := range []string{"targets", "receivers", "lanes"} {
		t.Run(table, func(t *testing.T) {
			b := open(t)
			target := b.target(t, "k")
			b.owe(t, target, 1)
			b.exec(t, `UPDATE eventsvc.`+table+` SET paused_at = now()`)
			if c := b.claim(t, b.worker, target, 1); len(c) != 0 {
				t.Errorf("claimed %v", c)
			}
			b.exec(t, `UPDATE eventsvc.`+table+` SET paused_at = NULL`)
			if c := b.claim(t, b.worker, target, 1); len(c) != 1 {
				t.Error("not claimed after the pause")
			}
		})
	}
}

// A floor is a moment, or one row of those that became available at a moment.
func TestAFloorOnlySkipsWhatIsBelowIt(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	b.owe(t, target, 4)
	b.exec(t, `UPDATE eventsvc.owed SET available_at = now() - interval '1 h' WHERE id IN (SELECT id FROM eventsvc.owed ORDER BY id LIMIT 3)`)
	all := b.claim(t, b.worker, target, 9)
	fences := make([]event.Fence, len(all))
	for i := range all {
		fences[i] = all[i].Fence
	}
	for floor, want := range map[ledger.Place]int{
		{}:                                4,
		{AvailableAt: all[0].AvailableAt}: 4,
		{AvailableAt: all[0].AvailableAt, Delivery: all[1].Delivery}: 3,
		{AvailableAt: all[0].AvailableAt, Delivery: all[2].Delivery}: 2,
		{AvailableAt: all[0].AvailableAt.Add(time.Microsecond)}:      1,
		{AvailableAt: all[3].AvailableAt, Delivery: all[3].Delivery}: 1,
		{AvailableAt: all[3].AvailableAt.Add(time.Microsecond)}:      0,
	} {
		if err := b.Release(t.Context(), b.worker, fences); err != nil {
			t.Fatal(err)
		}
		claimed, err := b.Claim(t.Context(), b.worker, 10, []ledger.Quota{{Target: target, N: 9, Lease: time.Minute, Floor: floor}})
		if err != nil || len(claimed.Claims) != want {
			t.Fatalf("claimed %d with the floor %v, want %d: %v", len(claimed.Claims), floor, want, err)
		}
		fences = fences[:0]
		for i := range claimed.Claims {
			fences = append(fences, claimed.Claims[i].Fence)
		}
	}
}

// P6: a claim whose worker was lost shows in the trail, and spends nothing.
func TestALapsedLeaseIsClaimedAgainAndShowsAsUnknown(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1)[0]
	b.claim(t, b.worker, target, 1)
	if c := b.claim(t, b.worker, target, 1); len(c) != 0 {
		t.Fatal("claimed twice under a live lease")
	}
	b.exec(t, `UPDATE eventsvc.owed SET lease_until = now() - interval '1 us'`)
	c := b.claim(t, b.worker, target, 1)
	if len(c) != 1 || c[0].Attempt() != 1 {
		t.Fatalf("got %+v, want the first attempt again", c)
	}
	trail := b.attempts(t, debt)
	if len(trail) != 1 || trail[0].Outcome != event.OutcomeUnknown || trail[0].Worker != "w1" || trail[0].Number != 1 {
		t.Errorf("the trail is %+v", trail)
	}
}

func TestTooManyLostClaimsMakePoison(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1)[0]
	for n := 1; n <= 10; n++ {
		if c := b.claim(t, b.worker, target, 1); len(c) != 1 {
			t.Fatalf("claim %d of 10 was not given", n)
		}
		b.exec(t, `UPDATE eventsvc.owed SET lease_until = now() - interval '1 us'`)
	}
	if c := b.claim(t, b.worker, target, 1); len(c) != 0 {
		t.Fatalf("an eleventh claim was given: %+v", c)
	}
	d := b.find(t, debt.ID)
	if d.Status != event.Dead || d.Attempts != 0 || d.Last == nil || d.Last.Class != event.ClassPoison {
		t.Errorf("got %+v, want dead with poison and nothing spent", d)
	}
	if trail := b.attempts(t, debt); len(trail) != 10 {
		t.Errorf("the trail has %d attempts, want one for each lost claim", len(trail))
	}
}

func TestReleasedClaimsKeepTheirPlaceAndSpendNothing(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debts := b.owe(t, target, 2)
	c := b.claim(t, b.worker, target, 1)
	if err := b.Release(t.Context(), b.worker, []event.Fence{c[0].Fence}); err != nil {
		t.Fatal(err)
	}
	again := b.claim(t, b.worker, target, 1)
	if len(again) != 1 || again[0].Delivery != debts[0].ID {
		t.Fatalf("got %+v, want the first again", again)
	}
	if trail := b.attempts(t, debts[0]); len(trail) != 0 {
		t.Errorf("a release left a trail: %+v", trail)
	}
	// A release under the old fence touches nothing.
	if err := b.Release(t.Context(), b.worker, []event.Fence{c[0].Fence}); err != nil {
		t.Fatal(err)
	}
	if d := b.find(t, debts[0].ID); d.Status != event.Claimed {
		t.Errorf("a stale release freed the new claim: %s", d.Status)
	}
}

func TestBacklogNamesEveryTargetThatIsOwedSomethingDue(t *testing.T) {
	b := open(t)
	if got, _, err := b.Backlog(t.Context()); err != nil || len(got) != 0 {
		t.Fatalf("got %v, %v of an empty ledger", got, err)
	}
	x, _, z := b.target(t, "x"), b.target(t, "y"), b.target(t, "z")
	b.owe(t, z, 5)
	b.owe(t, x, 5)
	got, revision, err := b.Backlog(t.Context())
	if err != nil || len(got) != 2 || got[0].Target != x || got[1].Target != z || revision == 0 {
		t.Fatalf("got %v at revision %d, %v; want %v and %v", got, revision, err, x, z)
	}
	// A target is named after the first that could be claimed: neither what is held nor what
	// is not due.
	held := b.claim(t, b.worker, x, 5)
	b.owe(t, x, 1)
	b.exec(t, `UPDATE eventsvc.owed SET available_at = now() + interval '1 minute' WHERE target_id = $1 AND claimed_by = 0`, int32(x))
	if got, _, err := b.Backlog(t.Context()); err != nil || len(got) != 1 || got[0].Target != z {
		t.Errorf("got %v, %v; want %v alone", got, err, z)
	}
	b.exec(t, `UPDATE eventsvc.owed SET lease_until = now() - interval '1 second' WHERE id = $1`, [16]byte(held[2].Delivery))
	if got, _, err := b.Backlog(t.Context()); err != nil || len(got) != 2 || !got[0].AvailableAt.Equal(held[2].AvailableAt) || got[0].Delivery != held[2].Delivery {
		t.Errorf("got %v, %v; want the lapsed lease, of %v", got, err, held[2].AvailableAt)
	}
}
