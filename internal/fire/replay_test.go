package fire_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/registry"
	"github.com/jackc/pgx/v5"
)

// end claims everything that is due and settles it as told.
func (o *office) end(t testing.TB, s event.Settlement) (n int) {
	t.Helper()
	worker, err := o.ledger.Enroll(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	heads, _, err := o.ledger.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var quotas []ledger.Quota
	for _, h := range heads {
		quotas = append(quotas, ledger.Quota{Target: h.Target, N: 1000, Lease: time.Minute})
	}
	claimed, err := o.ledger.Claim(t.Context(), worker, 10, quotas)
	if err != nil {
		t.Fatal(err)
	}
	var entries []ledger.Entry
	for _, c := range claimed.Claims {
		entries = append(entries, ledger.Entry{Fence: c.Fence, Settlement: s, Attempt: event.Attempt{Number: 1, StartedAt: time.Now(), Outcome: event.OutcomeFailed}})
	}
	recorded, _, err := o.ledger.Record(t.Context(), worker, entries)
	if err != nil {
		t.Fatal(err)
	}
	for _, ok := range recorded {
		if ok {
			n++
		}
	}
	return n
}

var (
	succeeded = event.Settlement{Status: event.Succeeded, Spent: 1}
	dead      = event.Settlement{Status: event.Dead, Spent: 1}
)

func (o *office) replay(t testing.TB, id event.ID, to fire.To) fire.Replayed {
	t.Helper()
	r, err := o.Replay(t.Context(), id, to, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (o *office) deliveries(t testing.TB, id event.ID) map[string]ledger.Delivery {
	t.Helper()
	list, err := o.ledger.OfEvent(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]ledger.Delivery{}
	for _, d := range list {
		by[d.Receiver] = d
	}
	if len(by) != len(list) {
		t.Fatalf("one receiver has two deliveries: %+v", list)
	}
	return by
}

// T124: what succeeded is sent again under a new id and in today's format; what is dead
// keeps both; both have their whole budget.
func TestAReplayReopensWhatHasEnded(t *testing.T) {
	o := open(t)
	o.declare(t, "won", registry.Declaration{Events: []event.Pattern{"order.*"}, MaxAttempts: most(3)})
	r := mustFire(t, o.Desk, draft("k", "1"))
	o.end(t, succeeded)
	o.declare(t, "lost", registry.Declaration{Events: []event.Pattern{"order.*"}})
	o.replay(t, r.Event.ID, fire.To{Receivers: []string{"lost"}})
	o.end(t, dead)
	for _, key := range []string{"won", "lost"} {
		o.declare(t, key, registry.Declaration{Events: []event.Pattern{"order.*"}, Format: event.FormatRaw, MaxAttempts: most(9)})
	}
	if got := o.replay(t, r.Event.ID, fire.To{}); got.Reopened != 2 || got.Added != 0 || len(got.Skipped) != 0 {
		t.Fatalf("got %+v", got)
	}
	now := o.deliveries(t, r.Event.ID)
	if w := now["won"]; w.Status != event.Pending || w.Attempts != 0 || w.Sending != 2 || w.MaxAttempts != 3 {
		t.Errorf("won: %+v", w)
	}
	if l := now["lost"]; l.Status != event.Pending || l.Attempts != 0 || l.Sending != 1 {
		t.Errorf("lost: %+v", l)
	}
	for key, want := range map[string]event.Format{"won": event.FormatRaw, "lost": event.FormatStandard} {
		c, _, err := o.ledger.ClaimOne(t.Context(), 1, now[key].ID, time.Minute)
		if err != nil || c.Format != want {
			t.Errorf("%s goes out as %s, %v", key, c.Format, err)
		}
	}
	if got := o.replay(t, r.Event.ID, fire.To{}); got.Reopened != 0 || got.Skipped[event.Claimed] != 2 {
		t.Errorf("under a live claim: %+v", got)
	}
}

// T28, T61 in part: owed from now, and told at once.
func TestAReplayAddsThoseWhoWantItNow(t *testing.T) {
	o := open(t)
	r := mustFire(t, o.Desk, draft("k", "1"))
	o.declare(t, "new", registry.Declaration{Due: duration(time.Hour)})
	o.declare(t, "other", registry.Declaration{Events: []event.Pattern{"invoice.*"}})
	if got := o.replay(t, r.Event.ID, fire.To{}); got.Added != 1 || got.Reopened != 0 {
		t.Fatalf("got %+v", got)
	}
	<-o.woken // of the fire, which nobody wanted
	if woken := <-o.woken; len(woken) != 1 {
		t.Errorf("woken: %v", woken)
	}
	d := o.deliveries(t, r.Event.ID)["new"]
	if wait := d.DueAt.Sub(r.Event.RecordedAt); wait != time.Hour {
		t.Errorf("due %v after the event was recorded", wait)
	}
	if o.count(t, `UPDATE eventsvc.events SET recorded_at = now() - interval '2 hours' RETURNING 1`) != 1 {
		t.Fatal("not moved")
	}
	o.declare(t, "late", registry.Declaration{Due: duration(time.Hour)})
	o.replay(t, r.Event.ID, fire.To{Receivers: []string{"late"}})
	if d := o.deliveries(t, r.Event.ID)["late"]; !d.DueAt.IsZero() || time.Until(d.AvailableAt) > time.Minute {
		t.Errorf("its due time has passed, and it is available %v", d.AvailableAt)
	}
}

func TestAReplayLeavesReceiversThatAreGoneAndSuppressedEventsAlone(t *testing.T) {
	o := open(t)
	o.declare(t, "gone", registry.Declaration{})
	r := mustFire(t, o.Desk, draft("k", "1"))
	o.end(t, dead)
	if _, err := o.registry.Remove(t.Context(), "gone", 0, none); err != nil {
		t.Fatal(err)
	}
	if got := o.replay(t, r.Event.ID, fire.To{}); got.Reopened+got.Added != 0 {
		t.Errorf("gone: %+v", got)
	}
	o.declare(t, "wants", registry.Declaration{})
	d := draft("k2", "1")
	d.Suppress = &event.Suppression{Reason: "import"}
	s := mustFire(t, o.Desk, d)
	if got := o.replay(t, s.Event.ID, fire.To{}); got.Added != 0 {
		t.Errorf("suppressed: %+v", got)
	}
	if _, err := o.Replay(t.Context(), event.NewID(time.Now()), fire.To{}, false); !errors.Is(err, fire.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

func TestADryReplayChangesNothing(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	r := mustFire(t, o.Desk, draft("k", "1"))
	o.end(t, dead)
	o.declare(t, "b", registry.Declaration{})
	got, err := o.Replay(t.Context(), r.Event.ID, fire.To{}, true)
	if err != nil || got.Reopened != 1 || got.Added != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if now := o.deliveries(t, r.Event.ID); len(now) != 1 || now["a"].Status != event.Dead {
		t.Errorf("got %+v", now)
	}
}

// T60: two at once owe everybody once.
func TestTwoReplaysAtOnceOweEverybodyOnce(t *testing.T) {
	o := open(t)
	r := mustFire(t, o.Desk, draft("k", "1"))
	for _, key := range []string{"a", "b", "c"} {
		o.declare(t, key, registry.Declaration{})
	}
	var all sync.WaitGroup
	added := make(chan int, 8)
	for range 8 {
		all.Go(func() {
			got, err := o.Replay(t.Context(), r.Event.ID, fire.To{}, false)
			if err != nil {
				t.Error(err)
			}
			added <- got.Added
		})
	}
	all.Wait()
	close(added)
	sum := 0
	for n := range added {
		sum += n
	}
	if sum != 3 || len(o.deliveries(t, r.Event.ID)) != 3 {
		t.Errorf("%d were added", sum)
	}
}

// T59, and the bulk's bounds.
func TestManyAreReplayedEachForItself(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	var ids []event.ID
	for _, key := range []string{"1", "2", "3", "4", "5"} {
		ids = append(ids, mustFire(t, o.Desk, draft(key, key)).Event.ID)
	}
	o.end(t, dead)
	run := func(a fire.ReplayAll) fire.ReplayedAll {
		t.Helper()
		got, err := o.ReplayAll(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for name, c := range map[string]struct {
		a      fire.ReplayAll
		events int
	}{
		"no ids":        {fire.ReplayAll{IDs: []event.ID{}}, 0},
		"limit 0":       {fire.ReplayAll{Most: most(0)}, 0},
		"another type":  {fire.ReplayAll{Filter: fire.Filter{Type: "a.b"}}, 0},
		"dry":           {fire.ReplayAll{DryRun: true}, 5},
		"two of them":   {fire.ReplayAll{Most: most(2), DryRun: true}, 2},
		"one and a gap": {fire.ReplayAll{IDs: []event.ID{ids[0], event.NewID(time.Now())}, DryRun: true}, 1},
	} {
		if got := run(c.a); got.Events != c.events || got.Reopened != c.events {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	late := fire.ReplayAll{Until: time.Now().Add(-time.Second)}
	got := run(late)
	if got.Next.IsZero() || got.Events != 0 {
		t.Fatalf("out of time: %+v", got)
	}
	late.Below, late.Until = got.Next, time.Time{}
	if got := run(late); got.Events != 5 || got.Reopened != 5 || !got.Next.IsZero() {
		t.Errorf("went on: %+v", got)
	}
}

// A removal and a fire under way take turns: either the fire is seen as owed, or it is
// matched anew without the receiver.
func TestARemovalSeesTheFiresUnderWay(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	mustFire(t, o.Desk, draft("warm", "{}"))
	if _, err := o.pool.Exec(t.Context(), `DELETE FROM eventsvc.owed`); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		fired := make(chan fire.Receipt, 20)
		var all sync.WaitGroup
		for j := range 20 {
			all.Go(func() {
				r, err := o.Fire(t.Context(), draft(fmt.Sprintf("%d-%d", i, j), "{}"))
				if err != nil {
					t.Error(err)
				}
				fired <- r
			})
		}
		_, err := o.registry.Remove(t.Context(), "a", 0, func(ctx context.Context, tx pgx.Tx, targets []event.TargetID) error {
			n, err := ledger.CountOwed(ctx, tx, targets)
			if err == nil && n > 0 {
				err = errors.New("owed")
			}
			return err
		})
		all.Wait()
		close(fired)
		owed := 0
		for r := range fired {
			owed += len(r.Owed)
		}
		if err == nil && owed > 0 {
			t.Fatalf("nothing was owed, said the removal, and %d deliveries are", owed)
		}
		o.declare(t, "a", registry.Declaration{})
		if _, err := o.pool.Exec(t.Context(), `DELETE FROM eventsvc.owed`); err != nil {
			t.Fatal(err)
		}
	}
}

// The same ids again, below the cursor, replay none of those that were replayed.
func TestAReplayByIDsGoesOnBelowItsCursor(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	var ids []event.ID
	for _, key := range []string{"1", "2", "3"} {
		ids = append(ids, mustFire(t, o.Desk, draft(key, key)).Event.ID)
	}
	o.end(t, succeeded)
	a := fire.ReplayAll{IDs: ids}
	a.Below = ids[1]
	got, err := o.ReplayAll(t.Context(), a)
	if err != nil || got.Events != 1 || got.Reopened != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}
