package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// RemoteLedger is what a Remote needs of the ledger.
type RemoteLedger interface {
	Ledger
	Enroll(ctx context.Context, name string) (event.WorkerID, error)
	Pulled(ctx context.Context, lane string) ([]event.TargetID, int64, error)
	Held(ctx context.Context, by ledger.Holding) (ledger.Held, error)
	Extend(ctx context.Context, by ledger.Holding, lease time.Duration) (time.Time, error)
}

// Events are where whole events are read: a claim brings what a request needs of one.
type Events interface {
	FindAll(ctx context.Context, ids []event.ID) (map[event.ID]event.Event, error)
}

// Remote serves workers that are elsewhere: it claims for them, and records what they say
// came of it, with all that follows an attempt of this process's own. How a worker holds
// a delivery is no other than how a relay does: a lease, and the fence of its claim.
type Remote struct {
	*Runner
	ledger  RemoteLedger
	events  Events
	knock   *knock
	seen    *successes
	mu      sync.Mutex
	numbers map[string]event.WorkerID
	turns   int // how often targets were asked, so that each is the first in turn
}

// NewRemote makes one over a runner, which must run. The ledger may use another pool
// than the runner's: workers that wait must not keep a relay from its claims.
func NewRemote(r *Runner, l RemoteLedger, e Events) *Remote {
	return &Remote{Runner: r, ledger: l, events: e, knock: newKnock(), seen: newSuccesses(), numbers: map[string]event.WorkerID{}}
}

// Wake tells workers that wait that targets were just owed something.
func (r *Remote) Wake(targets []event.TargetID) {
	if slices.ContainsFunc(targets, func(id event.TargetID) bool { t := r.Book.Target(id); return t == nil || t.Pulled() }) {
		r.knock.knock()
	}
}

// Look tells workers that wait that something may be owed.
func (r *Remote) Look() { r.knock.knock() }

// Run reports what was acknowledged until the context ends, and once more then.
func (r *Remote) Run(ctx context.Context) {
	for ctx.Err() == nil {
		r.report(ctx, recordTimeout)
		sleep(ctx, reportEvery)
	}
	r.report(context.WithoutCancel(ctx), lastWord)
}

func (r *Remote) report(ctx context.Context, within time.Duration) {
	seen := r.seen.take()
	if len(seen) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := r.ledger.Report(ctx, nobody, nil, ages(seen)); err != nil {
		r.seen.giveBack(seen)
		r.Log.DebugContext(ctx, "what workers elsewhere acknowledged could not be reported; trying again later", "err", err)
	}
}

// nobody is no worker's number: workers elsewhere serve no lane of the service's.
const nobody event.WorkerID = 0

// Claim leases up to most deliveries of a lane to a worker of that name, each with its
// receiver's lease, and with an equal share of them for each receiver that is owed
// something. Where nothing is due it waits, for as long as the worker does. Errors are
// [event.ErrStopping], and the ledger's own.
func (r *Remote) Claim(ctx context.Context, lane, name string, most int, wait time.Duration) ([]*event.Claim, error) {
	worker, err := r.number(ctx, name)
	if err != nil {
		return nil, err
	}
	select {
	case <-r.closing:
		return nil, event.ErrStopping
	default:
	}
	for late := time.Now().Add(wait); ; {
		knocked := r.knock.listen() // before looking: what is owed meanwhile is heard of
		claims, err := r.look(ctx, lane, worker, most)
		left := time.Until(late)
		if err != nil || len(claims) > 0 || left <= 0 {
			return claims, err
		}
		again := time.NewTimer(min(left, r.Poll))
		select {
		case <-knocked:
		case <-again.C:
		case <-r.closing:
			late = time.Time{}
		case <-ctx.Done():
			again.Stop()
			return nil, ctx.Err()
		}
		again.Stop()
	}
}

// maxNames bounds the names of workers that are remembered.
const maxNames = 1000

// number is the number under which this process claims for a worker of that name.
func (r *Remote) number(ctx context.Context, name string) (event.WorkerID, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, known := r.numbers[name]; known {
		return n, nil
	}
	limited, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	n, err := r.ledger.Enroll(limited, name)
	if err != nil {
		return 0, err
	}
	if len(r.numbers) >= maxNames {
		clear(r.numbers)
	}
	r.numbers[name] = n
	return n, nil
}

// look claims what is due, and hands back what is not for the worker to run.
func (r *Remote) look(ctx context.Context, lane string, worker event.WorkerID, most int) ([]*event.Claim, error) {
	targets, revision, err := r.ledger.Pulled(ctx, lane)
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	if err := r.Book.Reach(ctx, revision); err != nil {
		return nil, err
	}
	// A claim under way is waited for even when the worker has gone: its rows must be
	// handed back.
	whole := context.WithoutCancel(ctx)
	began := time.Now()
	claims, revision, err := r.draw(whole, worker, most, r.inTurn(targets))
	if err == nil && len(claims) > 0 {
		err = r.Book.Reach(whole, revision)
	}
	var whose map[event.ID]event.Event
	if err == nil && len(claims) > 0 {
		whose, err = r.eventsOf(whole, claims)
	}
	var mine []*event.Claim
	var back []event.Fence
	for _, c := range claims {
		c.To = r.Book.Target(c.TargetID)
		switch {
		case err != nil, ctx.Err() != nil, c.To == nil, c.To.Deleted, !c.To.Pulled():
			back = append(back, c.Fence)
		case r.hopeless(whole, c, worker, began):
		default:
			c.Event = whose[c.Event.ID]
			mine = append(mine, c)
		}
	}
	if len(back) > 0 {
		r.handBackOf(whole, worker, back...)
	}
	slices.SortFunc(mine, ledger.InOrder)
	return mine, err
}

func (r *Remote) eventsOf(ctx context.Context, claims []*event.Claim) (map[event.ID]event.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	ids := make([]event.ID, len(claims))
	for i := range claims {
		ids[i] = claims[i].Event.ID
	}
	return r.events.FindAll(ctx, ids)
}

// inTurn begins with another target each time, so that none waits behind others that
// take all there is.
func (r *Remote) inTurn(targets []event.TargetID) []event.TargetID {
	r.mu.Lock()
	first := r.turns % len(targets)
	r.turns++
	r.mu.Unlock()
	return slices.Concat(targets[first:], targets[:first])
}

// draw claims in rounds: an equal share for each target, and what some leave for those
// that had more.
func (r *Remote) draw(ctx context.Context, worker event.WorkerID, most int, targets []event.TargetID) (claims []*event.Claim, revision int64, err error) {
	for len(claims) < most && len(targets) > 0 {
		left := most - len(claims)
		asked := targets[:min(left, len(targets))]
		targets = slices.Clone(targets[len(asked):])
		share := left / len(asked)
		quotas := make([]ledger.Quota, 0, len(asked))
		for _, id := range asked {
			if t := r.Book.Target(id); t != nil {
				quotas = append(quotas, ledger.Quota{Target: id, N: share, Lease: t.Receiver.Lease})
			}
		}
		limited, cancel := context.WithTimeout(ctx, claimTimeout)
		got, err := r.ledger.Claim(limited, worker, r.MaxClaims, quotas)
		cancel()
		if err != nil {
			return claims, revision, err
		}
		claims, revision = append(claims, got.Claims...), max(revision, got.Revision)
		targets = append(targets, full(quotas, got.Claims)...)
	}
	return claims, revision, nil
}

// full are the targets whose quota came back whole: they may have more.
func full(quotas []ledger.Quota, claims []*event.Claim) (targets []event.TargetID) {
	got := map[event.TargetID]int{}
	for i := range claims {
		got[claims[i].TargetID]++
	}
	for _, q := range quotas {
		if got[q.Target] == q.N {
			targets = append(targets, q.Target)
		}
	}
	return targets
}

// hopeless ends a delivery that no worker could read, and reports whether it did.
func (r *Remote) hopeless(ctx context.Context, c *event.Claim, worker event.WorkerID, began time.Time) bool {
	v, ok := r.undeliverable(c)
	if !ok {
		return false
	}
	result, err := r.write(ctx, &ledger.Held{Claim: *c, Worker: worker}, v, began)
	if err == nil {
		r.after(ctx, c, result, func(event.Result) {})
	}
	return true
}

// Extend has the lease of a claim end so long from now. Errors are
// [ledger.ErrClaimLost], [ledger.ErrNotFound], and the ledger's own.
func (r *Remote) Extend(ctx context.Context, by ledger.Holding, lease time.Duration) (time.Time, error) {
	return r.ledger.Extend(ctx, by, lease)
}

// Complete records what a worker says came of its attempt, under its claim, and returns
// once that stands. What follows a record follows here as well. The attempt itself is
// over, so the hook surrounds its record: it counts and traces, and cannot have kept the
// receiver from running. Errors are [ledger.ErrClaimLost], [ledger.ErrNotFound],
// [event.ErrStopping], and the ledger's own; after another one whether the record stands
// is not known, and the same call finds out.
func (r *Remote) Complete(ctx context.Context, by ledger.Holding, v event.Verdict) error {
	held, err := r.ledger.Held(ctx, by)
	if err != nil {
		return err
	}
	if err := r.Book.Reach(ctx, held.Revision); err != nil {
		return err
	}
	if held.To = r.Book.Target(held.TargetID); held.To == nil {
		return ledger.ErrClaimLost // the registry was emptied meanwhile
	}
	v.StartedAt, v.Duration = time.Now().Add(-held.For), held.For
	v.Uncounted = v.Ruling == event.RetryAfter && (v.Uncounted || !held.To.Receiver.CountDeferrals)
	stands := make(chan error, 1)
	if !r.begin(func() { r.complete(&held, v, stands) }) {
		return event.ErrStopping
	}
	select {
	case err := <-stands:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Remote) complete(held *ledger.Held, told event.Verdict, stands chan<- error) {
	around.Attempt(r.work, r.Hook, held.Context(), r.Log,
		func(context.Context) event.Verdict { return told },
		func(ctx context.Context, v event.Verdict) event.Result {
			result, err := r.write(ctx, held, v, v.StartedAt)
			if err == nil && !result.Recorded {
				err = ledger.ErrClaimLost
			}
			stands <- err
			if result.Recorded || err == ledger.ErrClaimLost {
				around.Guarded(ctx, r.Log, "what follows a record", func() { r.after(ctx, &held.Claim, result, r.note(held.TargetID)) })
			}
			return result
		})
}

func (r *Remote) note(target event.TargetID) func(event.Result) {
	return func(result event.Result) {
		if result.Recorded && result.Settlement.Status == event.Succeeded {
			r.Note(target)
		}
	}
}

// Note remembers a success for the next report.
func (r *Remote) Note(target event.TargetID) { r.seen.note(target) }

// write settles and records one verdict under a claim that is not this process's own.
func (r *Remote) write(ctx context.Context, held *ledger.Held, v event.Verdict, began time.Time) (event.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	result := judge(&held.Claim, held.Claim.Context(), v, began)
	recorded, turns, err := r.ledger.Record(ctx, held.Worker, []ledger.Entry{entry(&held.Claim, &v, result.Settlement)})
	if err != nil {
		return result, err
	}
	if len(turns) > 0 && r.Turned != nil {
		r.Turned(turns)
	}
	result.Recorded = recorded[0]
	return result, nil
}
