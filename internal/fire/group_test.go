package fire_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// told is a desk that says when something was committed, from within its flusher, which goes
// on once the test lets it.
func (o *office) told(t *testing.T, committed func([]event.TargetID)) *fire.Desk {
	log := slog.New(slog.DiscardHandler)
	d := fire.NewDesk(fire.Options{Pool: o.pool, Book: o.registry.NewBook(log), Log: log, Committed: committed})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { d.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	return d
}

// Nobody is waited for where no commit is under way: of fifty the quickest, as a machine may
// have other things to do.
func TestAFireThatIsAloneIsWrittenAtOnce(t *testing.T) {
	o := open(t)
	quickest := time.Hour
	for i := range 50 {
		began := time.Now()
		mustFire(t, o.Desk, draft(fmt.Sprint("k", i), "{}"))
		quickest = min(quickest, time.Since(began))
	}
	if quickest >= 5*time.Millisecond {
		t.Errorf("the quickest of 50 took %v", quickest)
	}
}

// However long a commit takes, for a key that a transaction elsewhere holds, another begins
// beside it.
func TestBesideACommitThatIsSlowOthersAreWritten(t *testing.T) {
	o := open(t)
	tx, err := o.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `INSERT INTO eventsvc.fire_keys VALUES (0, 'held', gen_random_uuid(), sha256('x'), '[]')`); err != nil {
		t.Fatal(err)
	}
	slow := make(chan error, 1)
	go func() {
		_, err := o.Fire(t.Context(), draft("held", "{}"))
		slow <- err
	}()
	for o.count(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) == 0 {
	}
	for i := range 10 {
		mustFire(t, o.Desk, draft(fmt.Sprint("free", i), "{}"))
	}
	select {
	case err := <-slow:
		t.Errorf("the others were answered after the one that is slow: %v", err)
	default:
	}
	if err := <-slow; !errors.Is(err, fire.ErrKeyInUse) {
		t.Errorf("the held key: got %v, want ErrKeyInUse", err)
	}
}

// P1: whoever was told that it is busy may fire elsewhere.
func TestACallerThatGaveUpIsNotWritten(t *testing.T) {
	o := open(t)
	o.declare(t, "a", registry.Declaration{})
	committed, on := make(chan struct{}), make(chan struct{})
	d := o.told(t, func([]event.TargetID) { committed <- struct{}{}; <-on })
	var all sync.WaitGroup
	for _, key := range []string{"first", "second"} { // each holds up one flusher
		all.Go(func() {
			if _, err := d.Fire(t.Context(), draft(key, "{}")); err != nil {
				t.Error(err)
			}
		})
		<-committed
	}
	var late sync.WaitGroup
	for i := range 3 {
		late.Go(func() {
			if _, err := d.Fire(t.Context(), draft(fmt.Sprint("late", i), "{}")); !errors.Is(err, fire.ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err)
			}
		})
	}
	late.Wait()
	close(on)
	all.Wait()
	go func() { <-committed }()
	mustFire(t, d, draft("next", "{}")) // behind those in the queue
	if n := o.count(t, `SELECT count(*) FROM eventsvc.events`); n != 3 {
		t.Errorf("%d events were written, want the first, the second and the next", n)
	}
}
