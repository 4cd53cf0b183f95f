package ledger_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

func TestASuccessMovesADeliveryToThePast(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1)[0]
	c := b.claim(t, b.worker, target, 1)
	if got := b.record(t, b.worker, success(c[0])); !got[0] {
		t.Fatal("not recorded")
	}
	d := b.find(t, debt.ID)
	if d.Status != event.Succeeded || d.Attempts != 1 || d.CompletedAt.IsZero() || d.Receiver != "k" {
		t.Errorf("got %+v", d)
	}
	if n := b.exec(t, `SELECT FROM eventsvc.owed`); n != 0 {
		t.Errorf("%d rows are still owed", n)
	}
	if trail := b.attempts(t, debt); len(trail) != 1 || trail[0].Outcome != event.OutcomeSucceeded {
		t.Errorf("the trail is %+v", trail)
	}
}

func TestAFailurePutsADeliveryBackForItsWait(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1)[0]
	before := b.find(t, debt.ID)
	c := b.claim(t, b.worker, target, 1)
	b.record(t, b.worker, failure(c[0], time.Hour))
	d := b.find(t, debt.ID)
	if wait := d.AvailableAt.Sub(c[0].ClaimedAt); d.Status != event.Failed || d.Attempts != 1 || wait < time.Hour || wait > time.Hour+time.Minute {
		t.Errorf("got %+v, %v after the claim", d, wait)
	}
	if !d.OwedSince.Equal(before.OwedSince) {
		t.Error("backoff moved owed_since")
	}
	if d.Last == nil || d.Last.Error != "answered 500" || d.Last.Class != event.ClassHTTP5xx {
		t.Errorf("the last attempt is %+v", d.Last)
	}
	if c := b.claim(t, b.worker, target, 1); len(c) != 0 {
		t.Error("claimed during its wait")
	}
}

func TestNotYetMovesTheDueTimeAndSpendsNothing(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1)[0]
	c := b.claim(t, b.worker, target, 1)
	b.record(t, b.worker, failure(c[0], 0))
	c = b.claim(t, b.worker, target, 1)
	until := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Microsecond)
	b.record(t, b.worker, entry(c[0], event.Settlement{Status: event.Pending, Until: until, Outcome: event.OutcomeNotYet}))
	d := b.find(t, debt.ID)
	if d.Status != event.Pending || d.Attempts != 1 || !d.AvailableAt.Equal(until) || !d.DueAt.Equal(until) {
		t.Errorf("got %+v, want pending until %v", d, until)
	}
}

// P5: the fence is id, worker and claimed_at; each part has its own case.
func TestAStaleClaimCannotRecord(t *testing.T) {
	for name, stale := range map[string]func(*testing.T, *books, event.TargetID, *event.Claim) event.WorkerID{
		"claimed again by another worker": func(t *testing.T, b *books, target event.TargetID, _ *event.Claim) event.WorkerID {
			other, err := b.Enroll(t.Context(), "w1")
			if err != nil {
				t.Fatal(err)
			}
			b.exec(t, `UPDATE eventsvc.owed SET lease_until = now() - interval '1 us'`)
			b.claim(t, other, target, 1)
			return b.worker
		},
		"claimed again by the same worker": func(t *testing.T, b *books, target event.TargetID, _ *event.Claim) event.WorkerID {
			b.exec(t, `UPDATE eventsvc.owed SET lease_until = now() - interval '1 us'`)
			b.claim(t, b.worker, target, 1)
			return b.worker
		},
		"another worker under the same moment": func(t *testing.T, b *books, _ event.TargetID, _ *event.Claim) event.WorkerID {
			return b.worker + 1
		},
		"the same worker a microsecond off": func(t *testing.T, b *books, _ event.TargetID, c *event.Claim) event.WorkerID {
			c.ClaimedAt = c.ClaimedAt.Add(time.Microsecond)
			return b.worker
		},
		"released": func(t *testing.T, b *books, _ event.TargetID, c *event.Claim) event.WorkerID {
			if err := b.Release(t.Context(), b.worker, []event.Fence{c.Fence}); err != nil {
				t.Fatal(err)
			}
			return b.worker
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			target := b.target(t, "k")
			debt := b.owe(t, target, 1)[0]
			c := b.claim(t, b.worker, target, 1)
			worker := stale(t, b, target, &c[0])
			for _, e := range []ledger.Entry{success(c[0]), failure(c[0], time.Hour)} {
				if got := b.record(t, worker, e); got[0] {
					t.Errorf("%s was recorded", e.Settlement.Status)
				}
			}
			if d := b.find(t, debt.ID); d.Status.Terminal() || d.Attempts != 0 || !d.AvailableAt.Equal(c[0].AvailableAt) {
				t.Errorf("the delivery was changed: %+v", d)
			}
			for _, a := range b.attempts(t, debt) {
				if a.Outcome != event.OutcomeUnknown {
					t.Errorf("an attempt was kept that was not recorded: %+v", a)
				}
			}
		})
	}
}

func TestABatchSaysOfEachEntryWhetherItWasRecorded(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debts := b.owe(t, target, 4)
	c := b.claim(t, b.worker, target, 4)
	lost := c[2]
	lost.ClaimedAt = lost.ClaimedAt.Add(-time.Second)
	dead := entry(c[3], event.Settlement{Status: event.Dead, Spent: 1, Outcome: event.OutcomeFailed, Class: event.ClassPermanent, Error: "answered 410"})
	// Not in the order of their ids.
	got := b.record(t, b.worker, dead, failure(c[1], time.Hour), success(lost), success(c[0]))
	if !got[0] || !got[1] || got[2] || !got[3] {
		t.Fatalf("got %v, want all but the third", got)
	}
	for i, want := range []event.Status{event.Succeeded, event.Failed, event.Claimed, event.Dead} {
		if d := b.find(t, debts[i].ID); d.Status != want {
			t.Errorf("delivery %d is %s, want %s", i, d.Status, want)
		}
	}
}

// P10.
func TestNothingAReceiverSentCanKeepAVerdictFromBeingRecorded(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1)[0]
	c := b.claim(t, b.worker, target, 1)
	e := failure(c[0], 0)
	e.Attempt.Error = "bytes \x00 \xff\xfe and " + string(make([]byte, 5000))
	e.Attempt.HTTPStatus = 999
	e.Attempt.Evidence = &event.Evidence{Response: event.Response{Body: "\x00\xff", Headers: map[string]string{"a\x00": "\xff"}}}
	if got := b.record(t, b.worker, e); !got[0] {
		t.Fatal("not recorded")
	}
	trail := b.attempts(t, debt)
	if len(trail) != 1 || trail[0].HTTPStatus != 999 || trail[0].Evidence == nil || len(trail[0].Error) > 2100 {
		t.Errorf("the trail is %+v", trail)
	}
}

func TestOrphansLeaveNoAttemptBehind(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1)[0]
	c := b.claim(t, b.worker, target, 1)
	b.record(t, b.worker, ledger.Entry{Fence: c[0].Fence, Settlement: event.Settlement{Status: event.Orphaned}})
	if d := b.find(t, debt.ID); d.Status != event.Orphaned || d.Attempts != 0 || d.CompletedAt.IsZero() {
		t.Errorf("got %+v", d)
	}
	if trail := b.attempts(t, debt); len(trail) != 0 {
		t.Errorf("the trail is %+v", trail)
	}
}

func TestOneEventOwesATargetOnce(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	debt := b.owe(t, target, 1)[0]
	_, err := b.pool.Exec(t.Context(), `INSERT INTO eventsvc.owed (id, event_id, target_id, max_attempts, available_at, owed_since)
		VALUES (gen_random_uuid(), $1, $2, 1, now(), now())`, [16]byte(debt.EventID), int32(target))
	if err == nil {
		t.Error("the schema let one event owe one target twice")
	}
}

func TestDebtsOfEventsThatWereNotWrittenAreNotOwed(t *testing.T) {
	b := open(t)
	target := b.target(t, "k")
	var batch pgx.Batch
	ledger.Owe(&batch, []ledger.Debt{{ID: event.NewID(time.Now()), EventID: event.NewID(time.Now()), TargetID: target, MaxAttempts: 1}})
	if err := b.pool.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
	if got, _, err := b.Backlog(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v; want nothing owed", got, err)
	}
}
