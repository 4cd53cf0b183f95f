package relay

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// Ledger is what the relay needs of the ledger.
type Ledger interface {
	Claim(ctx context.Context, worker event.WorkerID, maxClaims int, quotas []ledger.Quota) (ledger.Claims, error)
	Record(ctx context.Context, worker event.WorkerID, entries []ledger.Entry) ([]bool, error)
	Release(ctx context.Context, worker event.WorkerID, fences []event.Fence) error
	Backlog(ctx context.Context) ([]event.TargetID, int64, error)
}

// Book is what the relay needs of the registry.
type Book interface {
	Target(event.TargetID) *event.Target
	Reach(ctx context.Context, revision int64) error
}

// Courier makes one attempt. It is total: whatever happens is a verdict.
type Courier interface {
	Attempt(ctx context.Context, claim *event.Claim) event.Verdict
}

// Options are what a relay needs. The zero value of a number or duration is its
// default, said beside it.
type Options struct {
	Worker  event.WorkerID
	Ledger  Ledger
	Book    Book
	Courier Courier
	Hook    around.Hook
	Log     *slog.Logger

	Slots     int           // attempts in flight: 256
	Batch     int           // most rows of one claim: 500
	Poll      time.Duration // how long a missed wake-up can go unnoticed: 1s
	Grace     time.Duration // how long a stop waits for attempts under way: 25s
	MaxClaims int           // lost claims after which a row is poison: 10
}

func (o Options) withDefaults() Options {
	o.Slots = orDefault(o.Slots, 256)
	o.Batch = orDefault(o.Batch, 500)
	o.Poll = orDefault(o.Poll, time.Second)
	o.Grace = orDefault(o.Grace, 25*time.Second)
	o.MaxClaims = orDefault(o.MaxClaims, 10)
	return o
}

func orDefault[T int | time.Duration](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}

// Relay is the loop.
type Relay struct {
	Options
	board    *board
	recorder *recorder
	attempts sync.WaitGroup
	beat     atomic.Int64 // UnixNano of the last turn of the loop
	warned   sync.Map     // receivers whose uncounted deferrals were counted, warned of once each
}

// New makes a relay; Run makes it work.
func New(o Options) *Relay {
	o = o.withDefaults()
	return &Relay{
		Options:  o,
		board:    newBoard(o.Slots, o.Book),
		recorder: newRecorder(o.Ledger, o.Worker, o.Log),
	}
}

// Wake tells the relay that targets were just owed something. It does not block.
func (r *Relay) Wake(targets []event.TargetID) { r.board.wake(targets) }

// Look tells the relay that something may be owed, by whom is not known: it asks the
// ledger. It does not block.
func (r *Relay) Look() { r.board.look() }

// Beat is when the loop last turned. While it runs, that is never longer ago than the
// poll interval, a claim and its back-off.
func (r *Relay) Beat() time.Time { return time.Unix(0, r.beat.Load()) }

// Run claims until the context ends. Then it claims no more, waits for the attempts
// under way to be recorded, for as long as the grace period, cuts those that are left,
// of which nothing is recorded, and returns.
func (r *Relay) Run(ctx context.Context) {
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	recording := make(chan struct{})
	go func() { r.recorder.run(work); close(recording) }()

	r.claimUntil(ctx, work)

	grace := time.AfterFunc(r.Grace, cut)
	r.attempts.Wait()
	grace.Stop()
	cut()
	<-recording
}

// claimUntil is the loop proper. Attempts it starts run under work.
func (r *Relay) claimUntil(ctx, work context.Context) {
	backoff := backoff{}
	lookAt := time.Now()
	for ctx.Err() == nil {
		r.beat.Store(time.Now().UnixNano())
		err := r.turn(ctx, work, &lookAt)
		if err != nil && ctx.Err() == nil {
			wait := backoff.next()
			r.Log.WarnContext(ctx, "the ledger cannot be claimed from; trying again", "in", wait, "err", err)
			lookAt = time.Now()
			sleep(ctx, wait)
			continue
		}
		backoff.reset()
		r.board.wait(ctx, lookAt)
	}
}

// turn looks for work if it is time to, and claims as long as claims come back full.
func (r *Relay) turn(ctx, work context.Context, lookAt *time.Time) error {
	if !time.Now().Before(*lookAt) || r.board.asked() {
		targets, revision, err := r.Ledger.Backlog(ctx)
		if err != nil {
			return err
		}
		if err := r.Book.Reach(ctx, revision); err != nil {
			return err
		}
		r.board.wake(targets)
		*lookAt = time.Now().Add(r.Poll)
	}
	for ctx.Err() == nil {
		quotas := r.board.draw(r.Batch)
		if len(quotas) == 0 {
			return nil
		}
		if err := r.claim(ctx, work, quotas); err != nil {
			return err
		}
	}
	return nil
}

// claimTimeout bounds every statement of the loop.
const claimTimeout = 10 * time.Second

func (r *Relay) claim(ctx, work context.Context, quotas []ledger.Quota) error {
	// A claim under way is waited for even when stopping: its rows must be handed back.
	claimCtx, done := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer done()
	began := time.Now()
	claimed, err := r.Ledger.Claim(claimCtx, r.Worker, r.MaxClaims, quotas)
	if err != nil {
		r.board.failed(quotas)
		return err
	}
	r.board.settle(quotas, claimed.Claims)
	if err := r.Book.Reach(claimCtx, claimed.Revision); err != nil || ctx.Err() != nil {
		r.release(claimCtx, claimed.Claims)
		return err
	}
	for i := range claimed.Claims {
		c := &claimed.Claims[i]
		c.To = r.Book.Target(c.TargetID)
		r.attempts.Go(func() {
			defer r.board.done(c.TargetID)
			r.attempt(work, c, began)
		})
	}
	return nil
}

// release hands claims back that will not be attempted.
func (r *Relay) release(ctx context.Context, claims []event.Claim) {
	fences := make([]event.Fence, len(claims))
	for i, c := range claims {
		fences[i] = c.Fence
		r.board.done(c.TargetID)
	}
	if len(fences) == 0 {
		return
	}
	if err := r.Ledger.Release(ctx, r.Worker, fences); err != nil {
		r.Log.WarnContext(ctx, "claims could not be handed back; they return when their leases lapse", "claims", len(fences), "err", err)
	}
}

// backoff is 1, 2, 4, 8 and then always 15 seconds.
type backoff struct{ wait time.Duration }

func (b *backoff) next() time.Duration {
	b.wait = min(max(2*b.wait, time.Second), 15*time.Second)
	return b.wait
}

func (b *backoff) reset() { b.wait = 0 }

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
