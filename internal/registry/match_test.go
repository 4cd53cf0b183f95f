package registry_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// matched are the keys of the receivers that an event is owed to.
func matched(b *registry.Book, eventType, tenant string) (keys []string) {
	all, _ := b.Match(occasion(eventType, tenant))
	for _, target := range all {
		keys = append(keys, target.Receiver.Key)
	}
	return keys
}

func TestMatchingFailsClosedByTenant(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "all")
	declare(t, r, "of-a", func(d *registry.Declaration) { d.Tenant = "a" })
	declare(t, r, "of-b", func(d *registry.Declaration) { d.Tenant = "b" })
	b := book(t, r)
	for range 2 { // first found, then remembered
		for tenant, want := range map[string][]string{"": {"all"}, "a": {"all", "of-a"}, "b": {"all", "of-b"}, "A": {"all"}, "a ": {"all"}} {
			if got := matched(b, "order.placed", tenant); !slices.Equal(got, want) {
				t.Errorf("tenant %q: got %v, want %v", tenant, got, want)
			}
		}
	}
}

func TestMatchingIsByTypeInTheOrderOfTheTargets(t *testing.T) {
	r := over(t, pgtest.New(t))
	for name, pattern := range map[string]event.Pattern{"exact": "order.placed", "below": "order.*", "other": "invoice.*", "all": "*"} {
		declare(t, r, name, func(d *registry.Declaration) { d.Events = []event.Pattern{pattern} })
	}
	b := book(t, r)
	for kind, want := range map[string][]string{"order.placed": {"all", "below", "exact"}, "order": {"all"}, "order.placed.late": {"all", "below"}, "invoice.paid": {"all", "other"}} {
		all, at := b.Match(occasion(kind, ""))
		if at != b.Revision() || !slices.IsSortedFunc(all, func(x, y *event.Target) int { return int(x.ID) - int(y.ID) }) {
			t.Errorf("%s: revision %d of %d, %v", kind, at, b.Revision(), all)
		}
		got := matched(b, kind, "")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", kind, got, want)
		}
	}
}

// Tenants and types are given by callers: more of them than are remembered are still
// matched rightly.
func TestMoreTenantsThanAreRememberedAreMatched(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "k", func(d *registry.Declaration) { d.Tenant = "t10050" })
	b := book(t, r)
	for i := range 10_100 {
		if got := matched(b, "a", fmt.Sprint("t", i)); (len(got) == 1) != (i == 10_050) {
			t.Errorf("tenant %d: %v", i, got)
		}
	}
}

func TestABookThatIsThereAlreadyReadsNothing(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "k")
	b := book(t, r)
	pool.Close()
	if err := b.Reach(t.Context(), b.Revision()); err != nil {
		t.Errorf("its own revision: %v", err)
	}
	if err := b.Reach(t.Context(), b.Revision()+1); err == nil {
		t.Error("reached a revision without a database")
	}
	if got := matched(b, "a", ""); len(got) != 1 {
		t.Errorf("a failed read lost what was known: %v", got)
	}
}

func TestABookKnowsNoStrangers(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "k")
	b := book(t, r)
	if got := b.Find("none", ""); got != nil {
		t.Errorf("found %v", got)
	}
	if got := b.Find("k", "eu"); got != nil {
		t.Errorf("found %v", got)
	}
	if got := b.Target(9999); got != nil {
		t.Errorf("got %v", got)
	}
	if empty := r.NewBook(quiet); empty.Revision() != 0 || matched(empty, "a", "") != nil {
		t.Error("a new book is not empty")
	}
}

func TestADeclarationThatCannotBeReadIsToldAndComesBackWhenDeclaredAnew(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "bad")
	declare(t, r, "good")
	if _, err := pool.Exec(t.Context(), `UPDATE eventsvc.receivers SET declaration = '{"events": 7}' WHERE key = 'bad'`); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	b := r.NewBook(slog.New(slog.NewTextHandler(&log, nil)))
	if err := b.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "receiver=bad") || strings.Contains(log.String(), "receiver=good") {
		t.Errorf("told: %s", log.String())
	}
	declare(t, r, "bad")
	if err := b.Reach(t.Context(), revision(t, pool)); err != nil {
		t.Fatal(err)
	}
	if got := matched(b, "a", ""); !slices.Equal(got, []string{"bad", "good"}) {
		t.Errorf("declared anew: %v", got)
	}
}

// A target that was handed out belongs to attempts under way and stays as it was.
func TestANewPageChangesNothingThatWasHandedOut(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "k")
	b := book(t, r)
	before := b.Find("k", "")
	if _, err := r.Pause(t.Context(), "k", true); err != nil {
		t.Fatal(err)
	}
	declare(t, r, "k", func(d *registry.Declaration) { d.URL, d.MaxAttempts = "https://other.example.com/", ptr(1) })
	if err := b.Reach(t.Context(), revision(t, pool)); err != nil {
		t.Fatal(err)
	}
	if before.Paused || before.URL != "https://shop.example.com/" || before.Receiver.MaxAttempts != 20 {
		t.Errorf("it became %+v", before)
	}
	if now := b.Find("k", ""); !now.Paused || now.Receiver.MaxAttempts != 1 {
		t.Errorf("the book has %+v", now)
	}
}

// A database that was restored, or lost its last writes in a failover, is believed.
func TestABookFollowsARegistryThatWentBack(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "k")
	b := book(t, r)
	if _, err := pool.Exec(t.Context(), `UPDATE eventsvc.registry SET revision = revision - 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE eventsvc.receivers SET deleted_at = now(), revision = 1; UPDATE eventsvc.targets SET revision = 1`); err != nil {
		t.Fatal(err)
	}
	if err := b.Reach(t.Context(), revision(t, pool)); err != nil {
		t.Fatal(err)
	}
	if got := matched(b, "a", ""); len(got) != 0 || b.Revision() != revision(t, pool) {
		t.Errorf("at %d it matches %v", b.Revision(), got)
	}
}

// occasion is an event of that type and tenant.
func occasion(eventType, tenant string) *registry.Occasion {
	return &registry.Occasion{Type: eventType, Data: []byte("{}"), Facts: event.Facts{Tenant: tenant}}
}
