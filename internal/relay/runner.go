package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// Runner turns claims into recorded settlements: hook, attempt, record, and what
// follows. It is the one way in which attempts are made, whoever claimed: the relay's
// loop, a drain, a fire that is eager, or a person who wants one delivery tried now.
type Runner struct {
	Options
	*shift
	recorder *recorder
}

// shift is what the runners of a process share: one stop ends the attempts of all.
type shift struct {
	teller *teller
	warned sync.Map // receivers whose uncounted deferrals were counted, warned of once each

	work context.Context // what attempts run under; cut when the grace is over
	cut  context.CancelFunc

	mu       sync.Mutex
	closed   bool
	closing  chan struct{} // closed when no more attempts begin
	attempts sync.WaitGroup
	idle     chan func() // to goroutines that have made an attempt
	underWay atomic.Int64
	wishes   chan struct{} // a seat for each delivery that somebody wants tried now
}

// NewRunner makes a runner; Run must run for attempts to be recorded.
func NewRunner(o Options) *Runner {
	o = o.withDefaults()
	s := &shift{teller: newTeller(o.Courier, o.Log), wishes: make(chan struct{}, maxWishes), closing: make(chan struct{}), idle: make(chan func())}
	s.work, s.cut = context.WithCancel(context.Background())
	return o.over(s)
}

// as is a runner that attempts and records under another number, and stops with this one.
func (r *Runner) as(worker event.WorkerID) *Runner {
	o := r.Options
	o.Worker = worker
	return o.over(r.shift)
}

func (o Options) over(s *shift) *Runner {
	underWay := func() int { return int(s.underWay.Load()) }
	return &Runner{Options: o, shift: s, recorder: newRecorder(o.Ledger, o.Worker, o.Log, o.Turned, underWay)}
}

// Run records until the context ends. Then it lets no more attempts begin, waits for
// those under way, for as long as the grace period, cuts those that are left, of which
// nothing is recorded, and returns.
func (r *Runner) Run(ctx context.Context) {
	defer r.cut()
	recording := make(chan struct{})
	go func() { r.recorder.run(r.work); close(recording) }()
	<-ctx.Done()
	r.mu.Lock()
	r.closed = true
	close(r.closing)
	r.mu.Unlock()
	r.Log.InfoContext(ctx, "stopping: nothing more is claimed; attempts under way are waited for", "attempts", r.underWay.Load(), "for", r.Grace)
	grace := time.AfterFunc(r.Grace, r.cut)
	r.attempts.Wait()
	grace.Stop()
	r.cut()
	<-recording
}

// maxWishes bounds the deliveries that are tried at one time because somebody wishes it.
const maxWishes = 16

// begin runs do as an attempt that a stop waits for, unless the runner has stopped.
func (r *Runner) begin(do func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.underWay.Add(1)
	r.attempts.Add(1)
	select {
	case r.idle <- do:
	default:
		go r.hand(do)
	}
	return true
}

// idleHand is how long a goroutine that has made an attempt waits to make another: its stack
// has grown to what an attempt takes.
const idleHand = 5 * time.Second

// hand makes attempts until there are none for a while.
func (r *Runner) hand(do func()) {
	timer := time.NewTimer(idleHand)
	defer timer.Stop()
	for {
		r.handle(do)
		timer.Reset(idleHand)
		select {
		case do = <-r.idle:
		case <-timer.C:
			return
		case <-r.closing:
			return
		}
	}
}

func (r *Runner) handle(do func()) {
	defer r.attempts.Done()
	defer r.underWay.Add(-1)
	do()
}

// Deliver tries one delivery now, whatever it waits for, as long as nobody holds it. It
// returns once the attempt was recorded; where the context ends before, the attempt
// goes on and Deliver answers false. A deferral is recorded and pauses nothing. Errors
// are [event.ErrPaused], [event.ErrStopping], and the ledger's own.
func (r *Runner) Deliver(ctx context.Context, id event.ID) (ended bool, err error) {
	target, known, err := r.Ledger.TargetOf(ctx, id)
	if err != nil {
		return false, err
	}
	if err := r.Book.Reach(ctx, known); err != nil {
		return false, err
	}
	to := r.Book.Target(target)
	switch {
	case to != nil && to.Paused:
		return false, event.ErrPaused
	case to != nil && to.Pulled() && !to.Deleted:
		return false, event.ErrPulled
	}
	lease := time.Minute
	if to != nil {
		lease = to.Receiver.Lease
	}
	select {
	case r.wishes <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	began := time.Now()
	claim, revision, err := r.Ledger.ClaimOne(ctx, r.Worker, id, lease)
	if err != nil {
		<-r.wishes
		return false, err
	}
	if err := r.Book.Reach(ctx, revision); err != nil {
		<-r.wishes
		r.handBack(r.work, claim.Fence)
		return false, err
	}
	claim.To = r.Book.Target(claim.TargetID)
	done, made := make(chan struct{}), false
	if !r.begin(func() {
		defer close(done)
		defer func() { <-r.wishes }()
		r.dispatch(&claim, began, course{came: func(result event.Result) { made = result.Recorded }})
	}) {
		<-r.wishes
		r.handBack(context.WithoutCancel(ctx), claim.Fence)
		return false, event.ErrStopping
	}
	select {
	case <-done:
		return made, nil
	case <-ctx.Done():
		return false, nil
	}
}

// course is told how an attempt goes.
type course struct {
	// answered, where given, is called where the receiver has taken the delivery and nothing
	// but the record is left. It reports whether nobody waits for that.
	answered func() (nobody bool)
	// came is called once with what the attempt came to, when it was recorded or lost. It is
	// not called where none was made.
	came func(event.Result)
}

// attempt is one claim's whole life in this process. began is the moment before the
// claim was asked for: the lease is counted from it on our own clock, so that we stop
// before the database thinks we have.
func (r *Runner) attempt(c *event.Claim, began time.Time, on course) {
	ctx := r.work
	switch lapse := began.Add(c.Lease()); {
	case c.To == nil:
		// It was declared so lately that it is not known here yet.
		r.handBack(ctx, c.Fence)
	case c.To.Deleted:
		r.orphan(ctx, c, lapse)
	case c.To.Pulled():
		// It was declared so while it was claimed for: it is for workers elsewhere.
		r.handBack(ctx, c.Fence)
	case time.Until(lapse) < c.To.Receiver.Timeout+event.LeaseMargin/2:
		r.handBack(ctx, c.Fence)
	default:
		if v, ok := r.undeliverable(c); ok {
			r.after(ctx, c, r.settle(ctx, c, c.Context(), v, nil, began, lapse, false), on.came)
			return
		}
		if c.To.Receiver.Function != "" {
			r.call(ctx, c, began, lapse, on.came)
			return
		}
		r.run(ctx, c, nil, began, lapse, on)
	}
}

// call is run with a function, once there is what its call needs. A claim that waits for
// it in vain was not attempted: it goes back unspent.
func (r *Runner) call(ctx context.Context, c *event.Claim, began, lapse time.Time, came func(event.Result)) {
	waiting, done := context.WithDeadline(ctx, lapse.Add(-c.To.Receiver.Timeout-event.LeaseMargin/2))
	call, err := r.Functions.Take(waiting, c)
	done()
	if err != nil {
		if ctx.Err() == nil {
			r.Log.WarnContext(ctx, fmt.Sprintf("receiver %s was not called for want of a connection to the database; its delivery goes back", c.To.Receiver.Key), "err", err)
		}
		r.handBack(context.WithoutCancel(ctx), c.Fence)
		return
	}
	defer call.End()
	r.run(ctx, c, call, began, lapse, course{came: came})
}

func (r *Runner) handBack(ctx context.Context, fences ...event.Fence) {
	r.handBackOf(ctx, r.Worker, fences...)
}

func (r *Runner) handBackOf(ctx context.Context, worker event.WorkerID, fences ...event.Fence) {
	ctx, done := context.WithTimeout(ctx, claimTimeout)
	defer done()
	if err := r.Ledger.Release(ctx, worker, fences); err != nil {
		r.Log.WarnContext(ctx, "claims could not be handed back; they return when their leases lapse", "claims", len(fences), "err", err)
	}
}

func fencesOf(claims []*event.Claim) []event.Fence {
	fences := make([]event.Fence, len(claims))
	for i := range claims {
		fences[i] = claims[i].Fence
	}
	return fences
}

// orphan ends a delivery whose receiver or target is gone. No attempt was made, so
// none is counted, kept or logged as failed.
func (r *Runner) orphan(ctx context.Context, c *event.Claim, lapse time.Time) {
	r.recorder.record(ctx, ledger.Entry{Fence: c.Fence, Settlement: event.Settlement{Status: event.Orphaned}}, lapse, false)
}

// undeliverable is the verdict on a delivery that cannot be made an attempt of: what is
// stored cannot be decoded, which no repetition mends, or this process lacks what it
// takes, which may pass. The receiver is never reached, so no hook runs.
func (r *Runner) undeliverable(c *event.Claim) (event.Verdict, bool) {
	v := event.Verdict{Ruling: event.Permanent, Class: event.ClassDecode, StartedAt: time.Now()}
	switch err := r.check(c); {
	case c.To.Unusable != "" && c.To.Unreadable:
		v.Reason = c.To.Unusable
	case c.To.Unusable != "" && !c.To.Pulled():
		v.Ruling, v.Reason = event.Failure, c.To.Unusable
	case err != nil:
		v.Reason = "what is stored cannot be decoded: " + err.Error()
	default:
		return v, false
	}
	return v, true
}

func (r *Runner) check(c *event.Claim) error {
	switch {
	case c.To.Unusable != "":
		return nil // which says enough
	case c.To.Receiver.Function != "":
		return r.Functions.Check(c)
	}
	return r.Courier.Check(c)
}

// run makes the attempt inside the hook: a request, or the call where one is given.
func (r *Runner) run(ctx context.Context, c *event.Claim, call Call, began, lapse time.Time, on course) {
	about := c.Context()
	around.Attempt(ctx, r.Hook, about, r.Log,
		func(ctx context.Context) event.Verdict {
			if call != nil {
				return call.Make(ctx)
			}
			return r.Courier.Attempt(ctx, c)
		},
		func(ctx context.Context, v event.Verdict) event.Result {
			patient := on.answered != nil && v.Ruling == event.Success && v.Result == nil && on.answered()
			result := r.settle(ctx, c, about, v, call, began, lapse, patient)
			around.Guarded(ctx, r.Log, "what follows a record", func() { r.after(ctx, c, result, on.came) })
			return result
		})
}

// Results records a success together with what the receiver's answer asked for, under the
// claim's fence. False: the claim was lost, or its lease ended first. What cannot be done
// makes the attempt another, which is answered instead.
type Results interface {
	Acknowledge(ctx context.Context, worker event.WorkerID, c *event.Claim, e ledger.Entry, v *event.Verdict, lapse time.Time) (recorded bool, instead *event.Verdict)
}

// settle judges a verdict and records what it means: a call's success in its own
// transaction, everything else by the recorder, which may take its time where the record is
// patient.
func (r *Runner) settle(ctx context.Context, c *event.Claim, about event.Context, v event.Verdict, call Call, began, lapse time.Time, patient bool) event.Result {
	if ctx.Err() != nil {
		// Cut by a stop whose grace is over: nobody knows how far the attempt came.
		// Nothing is recorded, and the lease brings the delivery back.
		return event.Result{Context: about, Verdict: v}
	}
	result := judge(c, about, v, began)
	if v.Ruling == event.Success && v.Result != nil && r.Results != nil {
		recorded, instead := r.Results.Acknowledge(ctx, r.Worker, c, entry(c, &v, result.Settlement), &v, lapse)
		if instead != nil {
			return r.settle(ctx, c, about, *instead, nil, began, lapse, false)
		}
		result.Recorded = recorded
		return result
	}
	if call == nil || v.Ruling != event.Success {
		result.Recorded = r.recorder.record(ctx, entry(c, &v, result.Settlement), lapse, patient)
		return result
	}
	recorded, instead := call.Acknowledge(ctx, r.Worker, entry(c, &v, result.Settlement))
	if instead != nil {
		return r.settle(ctx, c, about, *instead, nil, began, lapse, false)
	}
	result.Recorded = recorded
	return result
}

// judge is what a verdict means for a delivery, before it is recorded.
func judge(c *event.Claim, about event.Context, v event.Verdict, began time.Time) event.Result {
	owed := c.ClaimedAt.Sub(c.OwedSince) + time.Since(began)
	return event.Result{Context: about, Verdict: v, Settlement: event.Settle(c, c.To.Receiver.Terms, &v, owed, rand.Float64())}
}

func entry(c *event.Claim, v *event.Verdict, s event.Settlement) ledger.Entry {
	watched := event.TargetID(0)
	if c.To.Name != "" {
		watched = c.TargetID
	}
	return ledger.Entry{
		Watched:    watched,
		Fence:      c.Fence,
		Settlement: s,
		Attempt: event.Attempt{
			Number: c.Attempt(), StartedAt: v.StartedAt, Duration: v.Duration, Outcome: s.Outcome, Class: s.Class,
			HTTPStatus: v.HTTPStatus, Error: s.Error, Evidence: v.Evidence,
		},
	}
}

// after is what follows a settlement in this process. A worker that lost its claim says
// one thing, that it did, and does nothing else (P5).
func (r *Runner) after(ctx context.Context, c *event.Claim, result event.Result, came func(event.Result)) {
	came(result)
	if !result.Recorded {
		if ctx.Err() == nil {
			r.Log.WarnContext(ctx, fmt.Sprintf("receiver %s finished an attempt after its claim was lost; nothing of it was recorded; if this recurs, its lease of %s is too short",
				result.Receiver, event.Duration(c.Lease())))
		}
		return
	}
	r.remark(ctx, c, &result)
	if !result.Verdict.Failed() {
		return
	}
	s := &result.Settlement
	r.Log.WarnContext(ctx, fmt.Sprintf("receiver %s failed delivery %s on attempt %d with %s; the row is %s",
		result.Receiver, result.DeliveryID.Text(event.DeliveryPrefix), result.Attempt, s.Class, s.Status))
	if c.To.Receiver.OnFailure != "" && s.Class != event.ClassDecode {
		r.teller.tell(ctx, c.To, event.Notice{Context: result.Context, Status: s.Status, Class: s.Class, Error: s.Error, HTTPStatus: result.Verdict.HTTPStatus})
	}
}

// remark says what was done otherwise than the receiver asked.
func (r *Runner) remark(ctx context.Context, c *event.Claim, result *event.Result) {
	s := &result.Settlement
	if s.Clamped > 0 {
		r.Log.WarnContext(ctx, fmt.Sprintf("receiver %s asked delivery %s to wait %s; it will wait %s, which is as long as is allowed",
			result.Receiver, result.DeliveryID.Text(event.DeliveryPrefix), event.Duration(s.Clamped), event.Duration(c.To.Receiver.MaxRetryAfter)))
	}
	if s.Unbounded {
		if _, before := r.warned.LoadOrStore(result.Receiver, true); !before {
			r.Log.WarnContext(ctx, fmt.Sprintf("receiver %s defers without give_up_after; its deferrals are counted as attempts, since nothing else would end them", result.Receiver))
		}
	}
}
