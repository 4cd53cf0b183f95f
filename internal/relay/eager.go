package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// Eager makes first attempts right after the commit of their event, in the process that
// fired it. It claims no more than what it is offered, of lanes it knows but their pauses,
// and it pauses nothing. Whatever it does not do is a relay's, which may also be first.
type Eager struct {
	*Runner
	trail  Trail
	note   func(event.TargetID, *event.Result)
	left   func([]event.TargetID)
	in     chan ledger.Debt
	slots  chan struct{}
	crowds crowds
	counts EagerCounts

	mu     sync.Mutex
	listen map[event.ID]chan struct{} // who waits for attempts at an event
}

// Trail says which deliveries were tried, by whomever.
type Trail interface {
	Untried(ctx context.Context, of event.ID, ids []event.ID) ([]event.ID, error)
}

// EagerCounts are what became of the deliveries of eager receivers: tried here; missed, as
// another had them first or they are paused; or left to the relays for want of room.
type EagerCounts struct{ Tried, Missed, Left atomic.Int64 }

// Bounds of what is eager: attempts under way, and deliveries that wait to be one.
const (
	maxEager   = 64
	maxWaiting = 1000
)

// NewEager makes one that attempts as worker, beside a runner, which must run, and with
// which it stops. note hears of each attempt, and left of targets whose deliveries were
// taken on and are then left to the relays.
func NewEager(r *Runner, worker event.WorkerID, t Trail, note func(event.TargetID, *event.Result), left func([]event.TargetID)) *Eager {
	return &Eager{Runner: r.as(worker), trail: t, note: note, left: left, in: make(chan ledger.Debt, maxWaiting), slots: make(chan struct{}, maxEager), listen: map[event.ID]chan struct{}{}}
}

// Counts are what became of deliveries so far.
func (e *Eager) Counts() *EagerCounts { return &e.counts }

// Offer takes on what was just owed, and answers what it leaves to the relays. It does
// not block.
func (e *Eager) Offer(debts []ledger.Debt) (left []ledger.Debt) {
	for _, d := range debts {
		switch {
		case !suits(e.Book.Target(d.TargetID)):
			left = append(left, d)
		case !e.take(d):
			e.counts.Left.Add(1)
			left = append(left, d)
		}
	}
	return left
}

// suits reports whether a target's deliveries are tried eagerly. A rate limit is kept by
// the relay's board alone.
func suits(t *event.Target) bool {
	return t != nil && !t.Paused && !t.Deleted && !t.Receiver.Task && t.Receiver.Due == 0 && t.RateLimit == event.Rate{}
}

func (e *Eager) take(d ledger.Debt) bool {
	select {
	case <-e.closing:
		return false
	default:
	}
	select {
	case e.in <- d:
		return true
	default:
		return false
	}
}

// Run attempts what is offered until the context ends, and leaves then what waits. It
// returns when its runner has ended, and with that its attempts.
func (e *Eager) Run(ctx context.Context) {
	recording := make(chan struct{})
	go func() { e.recorder.run(e.work); close(recording) }()
	for e.turn(ctx) {
	}
	<-recording
}

// turn claims, once there is a slot, what waits and finds slots, without waiting for more.
func (e *Eager) turn(ctx context.Context) bool {
	select {
	case e.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	select {
	case d := <-e.in:
		e.claim(ctx, e.collect(d))
		return true
	case <-ctx.Done():
		return false
	}
}

// collect gives each delivery the slot that is held for it and a place at its target. One
// whose target has no room is left at once: it must not hold up those behind it.
func (e *Eager) collect(first ledger.Debt) []ledger.Debt {
	var wanted, crowded []ledger.Debt
	for d, more := first, true; more; d, more = e.next() {
		if e.crowds.enter(e.Book.Target(d.TargetID), d.TargetID) {
			wanted = append(wanted, d)
			continue
		}
		<-e.slots
		crowded = append(crowded, d)
	}
	e.leave(crowded)
	return wanted
}

// next is a delivery that waits, with a slot, where there are both.
func (e *Eager) next() (d ledger.Debt, ok bool) {
	select {
	case e.slots <- struct{}{}:
	default:
		return d, false
	}
	select {
	case d = <-e.in:
		return d, true
	default:
		<-e.slots
		return d, false
	}
}

// leave leaves deliveries that hold nothing to the relays.
func (e *Eager) leave(debts []ledger.Debt) {
	if len(debts) == 0 {
		return
	}
	e.counts.Left.Add(int64(len(debts)))
	targets := make([]event.TargetID, len(debts))
	for i, d := range debts {
		targets[i] = d.TargetID
	}
	e.left(targets)
}

// free gives back what an attempt at a target holds.
func (e *Eager) free(target event.TargetID) {
	e.crowds.leave(target)
	<-e.slots
}

// claim leases what is wanted and begins its attempts. A claim under way is waited for
// even when stopping: its rows must be handed back.
func (e *Eager) claim(ctx context.Context, wanted []ledger.Debt) {
	if len(wanted) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	began := time.Now()
	claims, err := e.lease(ctx, wanted)
	if err != nil {
		e.Log.WarnContext(ctx, "deliveries of eager receivers could not be claimed; they are left to the relays", "deliveries", len(wanted), "err", err)
		for _, d := range wanted {
			e.free(d.TargetID)
		}
		e.leave(wanted)
		return
	}
	mine := make(map[event.ID]*event.Claim, len(claims))
	for _, c := range claims {
		mine[c.Delivery] = c
	}
	for _, d := range wanted {
		if c := mine[d.ID]; c != nil {
			e.start(c, d, began)
			continue
		}
		e.counts.Missed.Add(1)
		e.free(d.TargetID)
	}
}

// lease claims what is wanted, with whom it is owed to.
func (e *Eager) lease(ctx context.Context, wanted []ledger.Debt) ([]*event.Claim, error) {
	fresh := make([]ledger.Fresh, len(wanted))
	for i, d := range wanted {
		fresh[i] = ledger.Fresh{ID: d.ID, Lease: time.Minute}
		if to := e.Book.Target(d.TargetID); to != nil {
			fresh[i].Lease = to.Receiver.Lease
		}
	}
	claimed, err := e.Ledger.ClaimFresh(ctx, e.Worker, fresh)
	if err != nil || len(claimed.Claims) == 0 {
		return nil, err
	}
	if err := e.Book.Reach(ctx, claimed.Revision); err != nil {
		e.handBack(context.WithoutCancel(ctx), fencesOf(claimed.Claims)...)
		return nil, err
	}
	for _, c := range claimed.Claims {
		c.To = e.Book.Target(c.TargetID)
	}
	return claimed.Claims, nil
}

// start begins the attempt of a claim, as any other of the runner's.
func (e *Eager) start(c *event.Claim, d ledger.Debt, began time.Time) {
	free := sync.OnceFunc(func() { e.free(d.TargetID) })
	if e.begin(func() {
		defer free()
		e.dispatch(c, began, course{came: func(result event.Result) {
			free()
			e.note(c.TargetID, &result)
			e.tell(c.Event.ID)
		}})
	}) {
		e.counts.Tried.Add(1)
		return
	}
	free()
	e.handBack(context.Background(), c.Fence)
	e.leave([]ledger.Debt{d})
}
