package fire_test

import (
	"errors"
	"testing"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
)

// What could not be written at its commit is not held: a commit is never refused.
func TestWhatIsTooWideToCommitIsNotPrepared(t *testing.T) {
	o := open(t)
	o.wide(t, 1000)
	if _, err := o.Fire(t.Context(), draft("warm", "1")); err != nil {
		t.Fatal(err)
	}
	var drafts []*fire.Draft
	for range 51 {
		drafts = append(drafts, draft("k", "1"))
	}
	for _, prepare := range []bool{true, false} {
		_, err := o.Transact(t.Context(), &fire.Together{Key: "k", Drafts: drafts, Prepare: prepare})
		if !errors.Is(err, fire.ErrTooWide) {
			t.Errorf("prepare %v: %v", prepare, err)
		}
	}
	held, err := o.Transact(t.Context(), &fire.Together{Key: "k", Drafts: drafts[:40], Prepare: true})
	if err != nil {
		t.Fatal(err)
	}
	if x, err := o.Commit(t.Context(), held.ID, ""); err != nil || x.State != event.Committed {
		t.Errorf("%s, %v", x.State, err)
	}
	if n := o.count(t, `SELECT count(*) FROM eventsvc.owed`); n != 41_000 {
		t.Errorf("%d are owed", n)
	}
}
