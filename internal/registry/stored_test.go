package registry_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// orphan lets a removal go on.
func orphan(context.Context, pgx.Tx, []event.TargetID) error { return nil }

func remove(t testing.TB, r *registry.Registry, name string) {
	t.Helper()
	if _, err := r.Remove(t.Context(), name, 0, orphan); err != nil {
		t.Fatal(err)
	}
}

func TestADeclarationIsReadBackAsItWasWrittenWithoutItsSecret(t *testing.T) {
	r := over(t, pgtest.New(t))
	d := declaration(func(d *registry.Declaration) {
		d.Events = []event.Pattern{"b", "a.*"}
		d.Lane, d.Tenant, d.Description = "mail", "t", "größer"
		d.MaxAttempts, d.Trace, d.Timeout = ptr(3), ptr(false), duration(time.Minute)
		d.Headers, d.Metadata = one("X-A", "b"), one("owner", "shop")
	})
	given := d
	given.Secret = new(event.Secret(make([]byte, 24)).Reveal())
	put, err := r.Declare(t.Context(), "k", given, 0)
	if err != nil {
		t.Fatal(err)
	}
	d.Events = []event.Pattern{"a.*", "b"} // in their normal order
	if got, flaw := put.Receiver.Declared(); flaw != "" || !reflect.DeepEqual(got, d) {
		t.Errorf("\ngot  %+v, %v\nwant %+v", got, flaw, d)
	}
	if bytes.Contains(put.Receiver.Declaration, []byte("whsec_")) {
		t.Errorf("the secret is in the declaration: %s", put.Receiver.Declaration)
	}
}

func TestTheSameDeclarationInAnotherOrderChangesNothing(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "k", func(d *registry.Declaration) { d.Events = []event.Pattern{"a.*", "b"} })
	before := revision(t, pool)
	again := declare(t, r, "k", func(d *registry.Declaration) { d.Events = []event.Pattern{"b", "a.b", "a.*", "b"} })
	if again.Receiver.Version != 1 || revision(t, pool) != before {
		t.Errorf("version %d, revision %d after %d", again.Receiver.Version, revision(t, pool), before)
	}
}

func TestWhatADeclarationLeavesOutIsBackAtItsDefault(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "k", func(d *registry.Declaration) { d.MaxAttempts, d.Lane, d.Tenant = ptr(3), "mail", "t" })
	declare(t, r, "k")
	if got := book(t, r).Find("k", "").Receiver; got.MaxAttempts != 20 || got.Lane != event.DefaultLane || got.Tenant != "" {
		t.Errorf("got %+v", got)
	}
}

func TestAChangedURLIsAChange(t *testing.T) {
	r := over(t, pgtest.New(t))
	first := declare(t, r, "k")
	moved := declare(t, r, "k", func(d *registry.Declaration) { d.URL = "https://other.example.com/" })
	if moved.Receiver.Version != 2 || moved.Receiver.TargetID != first.Receiver.TargetID || moved.Receiver.URL != "https://other.example.com/" {
		t.Errorf("got %+v", moved.Receiver)
	}
	if got := book(t, r).Find("k", "").URL; got != "https://other.example.com/" {
		t.Errorf("the book has %s", got)
	}
}

func TestARefusedDeclarationWritesNothing(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	before := revision(t, pool)
	_, err := r.Declare(t.Context(), "k", declaration(func(d *registry.Declaration) { d.Secret = new("whsec_x") }), 0)
	var flaws event.Flaws
	if !errors.As(err, &flaws) || flaws[0].Pointer != "/secret" {
		t.Errorf("got %v", err)
	}
	if _, err := r.Find(t.Context(), "k"); !errors.Is(err, registry.ErrNotFound) || revision(t, pool) != before {
		t.Errorf("found: %v, revision %d after %d", err, revision(t, pool), before)
	}
}

func TestAReceiverThatIsDeclaredAgainBeginsAnew(t *testing.T) {
	r := over(t, pgtest.New(t))
	first := declare(t, r, "k")
	if _, err := r.Pause(t.Context(), "k", true); err != nil {
		t.Fatal(err)
	}
	remove(t, r, "k")
	if _, err := r.Find(t.Context(), "k"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("still found: %v", err)
	}
	again := declare(t, r, "k")
	switch {
	case !again.Created || again.Secret == nil || bytes.Equal(again.Secret, first.Secret):
		t.Errorf("it has no new secret: %+v", again)
	case again.Receiver.PausedAt != nil:
		t.Errorf("it is paused since %v", again.Receiver.PausedAt)
	case again.Receiver.Version <= first.Receiver.Version:
		t.Errorf("its ETag %d may be one of the receiver that was deleted", again.Receiver.Version)
	case !again.Receiver.CreatedAt.After(first.Receiver.CreatedAt):
		t.Errorf("it was created %v", again.Receiver.CreatedAt)
	}
	got := book(t, r).Find("k", "")
	if len(got.Signers) != 1 || !bytes.Equal(got.Signers[0].Secret, again.Secret) {
		t.Errorf("%d secrets are live", len(got.Signers))
	}
}

func TestAPauseOutlivesADeclaration(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "k")
	paused, err := r.Pause(t.Context(), "k", true)
	if err != nil || paused.PausedAt == nil {
		t.Fatalf("got %+v, %v", paused, err)
	}
	again, err := r.Pause(t.Context(), "k", true)
	if err != nil || !again.PausedAt.Equal(*paused.PausedAt) {
		t.Errorf("paused twice, it is paused since %v, not %v: %v", again.PausedAt, paused.PausedAt, err)
	}
	put := declare(t, r, "k", func(d *registry.Declaration) { d.Description = "x" })
	if put.Receiver.PausedAt == nil || !book(t, r).Find("k", "").Paused {
		t.Error("a declaration ended the pause")
	}
	if resumed, err := r.Pause(t.Context(), "k", false); err != nil || resumed.PausedAt != nil {
		t.Errorf("resumed: %+v, %v", resumed, err)
	}
}

func TestWhatIsNotThereIsNeitherPausedNorRemoved(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "gone")
	remove(t, r, "gone")
	before := revision(t, pool)
	for _, name := range []string{"none", "gone"} {
		if _, err := r.Pause(t.Context(), name, true); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("pause %s: %v", name, err)
		}
		if _, err := r.Remove(t.Context(), name, 0, orphan); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("remove %s: %v", name, err)
		}
	}
	if got := revision(t, pool); got != before {
		t.Errorf("revision %d after %d", got, before)
	}
}

func TestARemovalIsSettledInItsOwnTransaction(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	put := declare(t, r, "k")
	before := revision(t, pool)
	refused := errors.New("still owed")
	var told []event.TargetID
	_, err := r.Remove(t.Context(), "k", put.Receiver.Version, func(ctx context.Context, tx pgx.Tx, targets []event.TargetID) error {
		told = targets
		var deleted bool
		if err := tx.QueryRow(ctx, `SELECT deleted_at IS NOT NULL FROM eventsvc.targets WHERE id = $1`, targets[0]).Scan(&deleted); err != nil {
			return err
		}
		if !deleted {
			t.Error("the transaction does not see the target deleted")
		}
		return refused
	})
	if !errors.Is(err, refused) || !slices.Equal(told, []event.TargetID{put.Receiver.TargetID}) {
		t.Errorf("told of %v: %v", told, err)
	}
	if all, _ := book(t, r).Match(occasion("a", "")); len(all) != 1 || revision(t, pool) != before {
		t.Errorf("%d are matched, revision %d after %d", len(all), revision(t, pool), before)
	}
}

func TestReceiversAreListedInTheOrderOfTheirKeysWithoutTheDeleted(t *testing.T) {
	r := over(t, pgtest.New(t))
	for _, name := range []string{"c", "a", "e", "b", "d"} {
		declare(t, r, name)
	}
	remove(t, r, "b")
	var keys []string
	for after := ""; ; after = keys[len(keys)-1] {
		page, err := r.List(t.Context(), "", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, receiver := range page {
			keys = append(keys, receiver.Key)
		}
		if len(page) < 2 {
			break
		}
	}
	if !slices.Equal(keys, []string{"a", "c", "d", "e"}) {
		t.Errorf("got %v", keys)
	}
	if none, err := r.List(t.Context(), "", "", 0); err != nil || len(none) != 0 {
		t.Errorf("none asked for: %d, %v", len(none), err)
	}
}

func TestErasingForgetsEveryReceiverOrNone(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	b := book(t, over(t, pool))
	declare(t, r, "a")
	declare(t, r, "b")
	refused := errors.New("no")
	if err := r.Erase(t.Context(), func(pgx.Tx) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if list, err := r.List(t.Context(), "", "", 9); err != nil || len(list) != 2 {
		t.Errorf("refused, it left %d, %v", len(list), err)
	}
	if err := r.Erase(t.Context(), func(pgx.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := b.Reach(t.Context(), revision(t, pool)); err != nil {
		t.Fatal(err)
	}
	if all, _ := b.Match(occasion("a", "")); len(all) != 0 {
		t.Errorf("%d are matched", len(all))
	}
	if put := declare(t, r, "a"); !put.Created {
		t.Errorf("declared again: %+v", put)
	}
}
