package moment

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
)

// Courier makes attempts.
type Courier interface {
	// Check says why no request can be made of a claim, or nil.
	Check(*event.Claim) error
	Attempt(context.Context, *event.Claim) event.Verdict
}

// Book knows the addresses as they are now.
type Book interface {
	Target(event.TargetID) *event.Target
}

// Bounds of what is told after commits.
const (
	AtOnce     = 64
	MaxWaiting = 1000
)

// After tells on_commit receivers, one request each. What does not find a place is
// dropped: fires wait for nobody.
type After struct {
	courier Courier
	book    Book
	log     *slog.Logger
	grace   time.Duration
	live    context.Context
	end     context.CancelFunc
	all     sync.WaitGroup

	mu      sync.Mutex
	busy    int
	waiting []telling
	stopped bool
	counts  Counts
	warned  time.Time
}

// telling is one event for one target.
type telling struct {
	event *event.Event
	to    event.TargetID
	key   string // of its receiver
}

// Counts are what became of requests.
type Counts struct{ OK, Failed, Dropped int64 }

// NewAfter makes one. Requests that are under way at a stop have so long to end.
func NewAfter(courier Courier, book Book, grace time.Duration, log *slog.Logger) *After {
	live, end := context.WithCancel(context.Background())
	return &After{courier: courier, book: book, grace: grace, log: log, live: live, end: end}
}

// Tell takes an event for targets. It never blocks.
func (a *After) Tell(e *event.Event, targets []*event.Target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range targets {
		next := telling{e, t.ID, t.Receiver.Key}
		switch {
		case a.stopped:
			a.drop(next, "the process stops")
		case t.Paused:
			a.drop(next, "it is paused")
		case a.busy < AtOnce:
			a.busy++
			a.all.Go(func() { a.work(next) })
		case len(a.waiting) < MaxWaiting:
			a.waiting = append(a.waiting, next)
		default:
			a.drop(next, fmt.Sprintf("%d are told and %d wait already", AtOnce, MaxWaiting))
		}
	}
}

// Run waits for the end of the context. Then what waits is dropped, and what is under way
// ends, within the grace.
func (a *After) Run(ctx context.Context) {
	<-ctx.Done()
	a.mu.Lock()
	a.stopped = true
	for _, t := range a.waiting {
		a.drop(t, "the process stops")
	}
	a.waiting = nil
	a.mu.Unlock()
	late := time.AfterFunc(a.grace, a.end)
	a.all.Wait()
	late.Stop()
	a.end()
}

// Counts are those since the start.
func (a *After) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// work tells one, and then whoever waits.
func (a *After) work(t telling) {
	for more := true; more; {
		v := a.tell(t)
		t, more = a.next(v.Ruling == event.Success)
	}
}

// next counts what has ended and takes the longest waiting.
func (a *After) next(ok bool) (t telling, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok {
		a.counts.OK++
	} else {
		a.counts.Failed++
	}
	if len(a.waiting) == 0 {
		a.busy--
		return t, false
	}
	t, a.waiting = a.waiting[0], a.waiting[1:]
	return t, true
}

// tell makes one request, in the trace of its event. What it comes to is logged and goes no further.
func (a *After) tell(t telling) event.Verdict {
	v := ask(around.Within(a.live, t.event.TraceParent), a.courier, a.book.Target(t.to), t.event, a.log)
	if v.Ruling != event.Success {
		a.log.Warn(fmt.Sprintf("receiver %s, told after the commit, failed event %s with %s; it is not told again", t.key, t.event.ID.Text(event.EventPrefix), v.Class),
			"verdict", v.Ruling, "why", v.Reason)
	}
	return v
}

// warnEvery is how often what is dropped is told in the log.
const warnEvery = time.Minute

// drop counts; the lock is held.
func (a *After) drop(t telling, why string) {
	a.counts.Dropped++
	if now := time.Now(); now.Sub(a.warned) >= warnEvery {
		a.warned = now
		a.log.Warn("an on_commit receiver is not told of an event; the rest of a minute is counted only", "receiver", t.key, "event", t.event.ID.Text(event.EventPrefix), "why", why)
	}
}
