package registry_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/registry"
)

func targets(t testing.TB, r *registry.Registry, receiver string, list ...registry.NamedTarget) []registry.PutTarget {
	t.Helper()
	puts, err := r.DeclareTargets(t.Context(), receiver, list, 0)
	if err != nil {
		t.Fatal(err)
	}
	return puts
}

func named(name string) registry.NamedTarget {
	return registry.NamedTarget{Name: name, TargetDeclaration: registry.TargetDeclaration{URL: "http://192.0.2.1/" + name}}
}

func fanOut(d *registry.Declaration) { d.FanOut, d.URL = true, "" }

func TestDeclaringTargetsIsIdempotentEachWithASecretOfItsOwn(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "hooks", fanOut)
	first := targets(t, r, "hooks", named("a"), named("b"))
	if !first[0].Created || first[0].Secret == nil || first[0].Secret.Reveal() == first[1].Secret.Reveal() {
		t.Fatalf("got %+v", first)
	}
	before := revision(t, pool)
	if again := targets(t, r, "hooks", named("a"), named("b")); again[0].Created || again[0].Secret != nil || revision(t, pool) != before {
		t.Errorf("the same again: %+v", again)
	}
	changed := named("a")
	changed.Tenant = "acme"
	mixed := targets(t, r, "hooks", changed, named("b"), named("c"))
	if mixed[0].Created || mixed[0].Target.Version != 2 || mixed[1].Target.Version != 1 || !mixed[2].Created {
		t.Errorf("one changed, one new: %+v", mixed)
	}
	got := book(t, r).Find("hooks", "a")
	if got == nil || got.Tenant != "acme" || len(got.Signers) != 1 || got.Signers[0].Reveal() != first[0].Secret.Reveal() {
		t.Errorf("in the book: %+v", got)
	}
	if _, err := r.DeclareTargets(t.Context(), "hooks", []registry.NamedTarget{changed}, 7); !errors.Is(err, registry.ErrChanged) {
		t.Errorf("at a version that is not in force: %v", err)
	}
	declare(t, r, "plain")
	if _, err := r.DeclareTargets(t.Context(), "plain", []registry.NamedTarget{named("a")}, 0); !errors.Is(err, registry.ErrNoFanOut) {
		t.Errorf("of a receiver with a url: %v", err)
	}
	for receiver, want := range map[string]error{"none": registry.ErrNotFound, "hooks": registry.ErrNoTarget} {
		if _, err := r.FindTarget(t.Context(), receiver, "z"); !errors.Is(err, want) {
			t.Errorf("%s: %v", receiver, err)
		}
	}
	if _, err := r.FindTarget(t.Context(), "plain", ""); !errors.Is(err, registry.ErrNoTarget) {
		t.Errorf("a receiver's own address is no target: %v", err)
	}
}

// One of the same name that was deleted lends the new one nothing.
func TestATargetThatIsDeclaredAgainBeginsAnew(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "hooks", fanOut)
	first := targets(t, r, "hooks", named("a"))[0]
	if done, err := r.Disable(t.Context(), first.Target.ID); err != nil || !done {
		t.Fatalf("%v, %v", done, err)
	}
	if done, err := r.Disable(t.Context(), first.Target.ID); err != nil || done {
		t.Errorf("switched off twice: %v, %v", done, err)
	}
	b := book(t, r)
	if got := b.Find("hooks", "a"); !got.Disabled || !got.Paused {
		t.Errorf("switched off: %+v", got)
	}
	if gone, err := r.RemoveTarget(t.Context(), "hooks", "a", 0, orphan); err != nil || len(gone) != 1 {
		t.Fatalf("%v, %v", gone, err)
	}
	again := targets(t, r, "hooks", named("a"))[0]
	if !again.Created || again.Secret.Reveal() == first.Secret.Reveal() || again.Target.DisabledAt != nil {
		t.Errorf("got %+v", again)
	}
	if got := book(t, r).Find("hooks", "a"); len(got.Signers) != 1 || got.Paused {
		t.Errorf("in the book: %+v", got)
	}
}

// A resume counts the deaths anew in the same transaction, or nothing is resumed.
func TestResumingIsOneStepWithWhatGoesAlong(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "hooks", fanOut)
	put := targets(t, r, "hooks", named("a"))[0]
	if _, err := r.Disable(t.Context(), put.Target.ID); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	if _, err := r.PauseTarget(t.Context(), "hooks", "a", false, func(context.Context, pgx.Tx, event.TargetID) error { return refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if now, _ := r.FindTarget(t.Context(), "hooks", "a"); now.DisabledAt == nil {
		t.Error("resumed all the same")
	}
	now, err := r.PauseTarget(t.Context(), "hooks", "a", false, func(_ context.Context, _ pgx.Tx, id event.TargetID) error {
		if id != put.Target.ID {
			t.Errorf("told of %d", id)
		}
		return nil
	})
	if err != nil || now.DisabledAt != nil {
		t.Errorf("got %+v, %v", now, err)
	}
}

// SIGN-06: a bounded number of secrets is kept, and none longer than it signs.
func TestARotationKeepsFiveSecretsAtMostAndNoneThatExpired(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "k")
	stored := func() (n int) {
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM eventsvc.secrets`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 20 {
		if _, err := r.Rotate(t.Context(), "k", "", nil, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if stored() != 5 || len(book(t, r).Find("k", "").Signers) != 5 {
		t.Errorf("%d are stored", stored())
	}
	if _, err := pool.Exec(t.Context(), `UPDATE eventsvc.secrets SET expires_at = now() - interval '1 second' WHERE expires_at < 'infinity'`); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Rotate(t.Context(), "k", "", nil, time.Hour); err != nil || stored() != 2 {
		t.Errorf("%d are stored, %v; the last two may sign", stored(), err)
	}
	done, err := r.Rotate(t.Context(), "k", "", nil, 0)
	if live := book(t, r).Find("k", "").Signers; err != nil || stored() != 1 || live[0].Reveal() != done.Secret.Reveal() {
		t.Errorf("after a leak %d are stored, %v", stored(), err)
	}
	if _, err := r.Rotate(t.Context(), "none", "", nil, 0); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
}

func TestATargetsRateLimitIsItsOwnOrItsReceivers(t *testing.T) {
	r := over(t, pgtest.New(t))
	minute, second := event.Rate{Count: 300, Per: time.Minute}, event.Rate{Count: 10, Per: time.Second}
	limit := func(rate *event.Rate) {
		declare(t, r, "hooks", fanOut, func(d *registry.Declaration) { d.RateLimit = rate })
		declare(t, r, "plain", func(d *registry.Declaration) { d.RateLimit = rate })
	}
	limit(&minute)
	own := named("own")
	own.RateLimit = &second
	targets(t, r, "hooks", own, named("plain"))
	b := r.NewBook(slog.New(slog.DiscardHandler))
	holds := func(when string, own, inherited event.Rate) {
		t.Helper()
		if err := b.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b.Find("hooks", "own").RateLimit != own || b.Find("hooks", "plain").RateLimit != inherited || b.Find("plain", "").RateLimit != inherited {
			t.Errorf("%s: %v, %v, %v", when, b.Find("hooks", "own").RateLimit, b.Find("hooks", "plain").RateLimit, b.Find("plain", "").RateLimit)
		}
	}
	holds("declared", second, minute)
	limit(nil)
	holds("the receivers' is gone", second, event.Rate{})
	limit(&second)
	targets(t, r, "hooks", named("own"))
	holds("the target's is gone", second, second)
}
