package relay

import (
	"context"
	"fmt"
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
	ClaimOne(ctx context.Context, worker event.WorkerID, id event.ID, lease time.Duration) (event.Claim, int64, error)
	ClaimFresh(ctx context.Context, worker event.WorkerID, wanted []ledger.Fresh) (ledger.Claims, error)
	TargetOf(ctx context.Context, id event.ID) (event.TargetID, int64, error)
	Record(ctx context.Context, worker event.WorkerID, entries []ledger.Entry) ([]bool, []ledger.Health, error)
	Release(ctx context.Context, worker event.WorkerID, fences []event.Fence) error
	HandOver(ctx context.Context, worker event.WorkerID, f event.Fence, lease time.Duration) (bool, error)
	TakeBack(ctx context.Context, worker event.WorkerID, f event.Fence) error
	Take(ctx context.Context, worker, by event.WorkerID, f event.Fence) (event.Claim, int64, error)
	Backlog(ctx context.Context) ([]ledger.Head, int64, error)
	Report(ctx context.Context, worker event.WorkerID, lanes []string, succeeded map[event.TargetID]time.Duration) error
}

// Book is what the relay needs of the registry.
type Book interface {
	Target(event.TargetID) *event.Target
	Reach(ctx context.Context, revision int64) error
}

// Courier makes requests.
type Courier interface {
	// Check says why no request can be made of what is stored, or nil.
	Check(claim *event.Claim) error
	// Attempt makes one attempt. It is total: whatever happens is a verdict.
	Attempt(ctx context.Context, claim *event.Claim) event.Verdict
	// Tell tells a receiver's on_failure of one failed attempt.
	Tell(ctx context.Context, to *event.Target, f *event.Notice) error
}

// Functions calls receivers that are functions of the database.
type Functions interface {
	// Check says why no call can be made of what is stored, or nil.
	Check(claim *event.Claim) error
	// Take waits for what a call needs until the context ends. The call must be ended.
	Take(ctx context.Context, claim *event.Claim) (Call, error)
}

// Call is one attempt at a function. Between Make and Acknowledge a transaction holds what
// the function wrote.
type Call interface {
	// Make calls the function. It is total: whatever happens is a verdict.
	Make(ctx context.Context) event.Verdict
	// Acknowledge commits what the function wrote together with the record of its success,
	// under the claim's fence. False: the claim was lost, or whether it was committed is not
	// known. Where neither stands for certain, it answers what came instead of the success.
	Acknowledge(ctx context.Context, worker event.WorkerID, e ledger.Entry) (recorded bool, instead *event.Verdict)
	// End undoes what was not acknowledged.
	End()
}

// Options are what a relay needs. The zero value of a number or duration is its
// default, said beside it.
type Options struct {
	Worker  event.WorkerID
	Ledger  Ledger
	Book    Book
	Courier Courier
	// Functions may be nil where no receiver is a function.
	Functions Functions
	// Results, where given, does what answers ask for. Without it they are answers like any.
	Results Results
	Hook    around.Hook
	Log     *slog.Logger

	Slots     int           // attempts in flight: 256
	Batch     int           // most rows of one claim: 500
	Poll      time.Duration // how long a missed wake-up can go unnoticed: 1s
	Grace     time.Duration // how long a stop waits for attempts under way: 25s
	MaxClaims int           // lost claims after which a row is poison: 10

	// Tasks, where given, is how claims of receivers with site task get to worker processes.
	Tasks Tasks

	// Turned, where given, is told how targets of fan-out receivers fare when that has
	// turned. It must not block.
	Turned func([]ledger.Health)

	Lanes Lanes
	// Once ends the relay when nothing that is due is left; Limit, unless 0, after so
	// many claims.
	Once  bool
	Limit int
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
	*Runner
	board *board
	beat  atomic.Int64 // UnixNano of the last turn of the loop
	left  int          // claims that may still be made, where that is limited
	seen  *successes
	done  atomic.Bool
	// unrecorded are attempts that have given up their seats before they are recorded: as
	// many as there are slots.
	unrecorded atomic.Int64
	recalling  sync.Mutex
	lookout
	outage
}

// New makes a relay; Run makes it work.
func New(o Options) *Relay {
	runner := NewRunner(o)
	board := newBoard(runner.Slots, runner.Book, runner.Lanes)
	board.limited = o.Limit > 0
	return &Relay{
		Runner: runner,
		board:  board,
		left:   runner.Limit,
		seen:   newSuccesses(),

		lookout: lookout{at: time.Now(), answers: make(chan answer, 1)},
	}
}

// Wake tells the relay that targets were just owed something. It does not block.
func (r *Relay) Wake(targets []event.TargetID) { r.board.wake(targets) }

// Resume tells the relay that the database was just reached: it asks the ledger at once,
// even where it waits after having failed to. It does not block.
func (r *Relay) Resume() { r.board.resume() }

// Look tells the relay that something may be owed, by whom is not known: it asks the
// ledger. It does not block.
func (r *Relay) Look() { r.board.look() }

// Hurry ends every pause that a deferral began, and has no rate limit waited for until
// done is called. It is for tests, which do not wait.
func (r *Relay) Hurry() (done func()) { return r.board.hurry() }

// Pauses are the lanes and targets that this process leaves alone just now.
func (r *Relay) Pauses() []event.Pause { return r.board.pauses() }

// Beat is when the loop last turned. While it runs, that is never longer ago than the
// poll interval, a claim and its back-off.
func (r *Relay) Beat() time.Time { return time.Unix(0, r.beat.Load()) }

// Run claims until the context ends, or its work is done where it has an end. Then it
// claims no more, and waits as [Runner.Run] does.
func (r *Relay) Run(ctx context.Context) {
	attempting, stop := context.WithCancel(context.WithoutCancel(ctx))
	ran := make(chan struct{})
	go func() { r.Runner.Run(attempting); close(ran) }()
	reporting, quiet := context.WithCancel(context.WithoutCancel(ctx))
	reported := make(chan struct{})
	go func() { r.report(reporting); close(reported) }()

	stopping := context.AfterFunc(ctx, r.recall) // a claim that is under way is not waited for
	r.claimUntil(ctx)
	stopping()
	r.recall()
	stop()
	<-ran
	quiet()
	<-reported
}

// claimUntil is the loop proper.
func (r *Relay) claimUntil(ctx context.Context) {
	defer r.lookout.end()
	for ctx.Err() == nil {
		r.beat.Store(time.Now().UnixNano())
		r.look(ctx)
		if err := r.turn(ctx); err != nil && ctx.Err() == nil {
			r.away(ctx, err, time.Now())
			r.outage.claims = true
			r.lookout.at = r.outage.until
			r.board.rest(ctx, time.Until(r.outage.until))
			continue
		}
		if r.finished() {
			r.done.Store(true)
			return
		}
		r.board.wait(ctx, r.lookout.next(r.Poll))
	}
}

// Finished reports whether Run has returned because its work was done.
func (r *Relay) Finished() bool { return r.done.Load() }

// finished reports whether a relay whose work has an end has come to it.
func (r *Relay) finished() bool {
	return r.Limit > 0 && r.left == 0 || r.Once && r.lookout.looked && r.board.idle()
}

// turn claims as long as claims come back full.
func (r *Relay) turn(ctx context.Context) error {
	for ctx.Err() == nil {
		batch := r.Batch
		if r.Limit > 0 {
			batch = min(batch, r.left)
		}
		draws := r.board.draw(batch)
		if len(draws) == 0 {
			return nil
		}
		if err := r.claim(ctx, draws); err != nil {
			return err
		}
	}
	return nil
}

// claimTimeout bounds what the loop waits for the database at a time: a connection may
// fall silent without a word.
const claimTimeout = 10 * time.Second

func (r *Relay) claim(ctx context.Context, draws []draw) error {
	// A claim under way is waited for even when stopping: its rows must be handed back.
	claimCtx, done := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer done()
	quotas := make([]ledger.Quota, len(draws))
	seats := make(map[event.TargetID]seat, len(draws))
	for i, d := range draws {
		quotas[i], seats[d.Target] = d.Quota, d.seat
	}
	began := time.Now()
	claimed, err := r.Ledger.Claim(claimCtx, r.Worker, r.MaxClaims, quotas)
	if err != nil {
		r.board.failed(draws)
		return err
	}
	r.outage.over()
	r.board.settle(draws, claimed.Claims)
	now, later := part(draws, claimed.Claims)
	if err := r.Book.Reach(claimCtx, claimed.Revision); err != nil || ctx.Err() != nil {
		r.release(ctx, now, seats)
		r.putBack(ctx, later)
		return err
	}
	r.keep(later, began)
	var unstarted []*event.Claim
	for _, c := range now {
		if !r.start(c, seats[c.TargetID], began) {
			unstarted = append(unstarted, c)
		} else if r.Limit > 0 {
			r.left--
		}
	}
	r.release(ctx, unstarted, seats)
	return nil
}

// start begins an attempt, unless its destination has asked to be left alone while it
// was claimed for, or its receiver was declared to another lane.
func (r *Relay) start(c *event.Claim, at seat, began time.Time) bool {
	c.To = r.Book.Target(c.TargetID)
	if !r.board.admits(at) || c.To != nil && !r.Lanes.serves(c.To) {
		return false
	}
	first := ahead{claim: c, began: began}
	return r.begin(func() { r.sit(at, &first) })
}

// came notes on the board what an attempt came to.
func (r *Relay) came(c *event.Claim, at seat, result *event.Result) {
	s := &result.Settlement
	switch {
	case s.Pause > 0 && !result.Recorded: // another worker's to act on
	case s.Class == event.ClassDecode: // the destination was not asked
	case r.board.heard(at, c.To.Receiver.PauseScope, s.Pause):
		r.Log.Info(fmt.Sprintf("receiver %s asks to be left alone: its %s pauses for %s in this process",
			result.Receiver, c.To.Receiver.PauseScope, event.Duration(s.Pause)), "lane", at.lane.name)
	}
	r.Note(c.TargetID, result)
}

// Note remembers what was recorded of an attempt at a target, whoever made it in this
// process: a success is reported, and a target is looked at when its next attempt is due.
func (r *Relay) Note(target event.TargetID, result *event.Result) {
	if !result.Recorded {
		return
	}
	switch s := &result.Settlement; s.Status {
	case event.Succeeded:
		r.seen.note(target)
	case event.Failed:
		r.board.wakeAt(target, time.Now().Add(s.Wait))
	case event.Pending:
		r.board.wakeAt(target, s.Until)
	}
}

// release hands claims back that will not be attempted, though the process is stopping, and
// frees their seats.
func (r *Relay) release(ctx context.Context, claims []*event.Claim, seats map[event.TargetID]seat) {
	var kept []*event.Claim
	for i := range claims {
		kept = append(kept, r.board.done(seats[claims[i].TargetID])...)
	}
	r.putBack(ctx, claims)
	r.giveBack(kept)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
