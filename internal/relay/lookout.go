package relay

import (
	"context"
	"time"
)

// lookout asks the ledger, now and then, who is owed something: what no wake-up told of,
// leases that lapsed, and what was handed back. It asks beside the loop, one question at a
// time: with a large backlog, or under a transaction that keeps vacuum away, an answer may
// take its time, and claims do not wait for it. Its fields are the loop's own.
type lookout struct {
	at      time.Time // when to ask next
	asking  bool
	looked  bool // an answer has come
	answers chan answer
}

// answer is how asking went, and when it ended.
type answer struct {
	err error
	at  time.Time
}

// never is longer than any process runs.
const never = 100 * 365 * 24 * time.Hour

// look takes the answer that has come, and asks again if it is time to.
func (r *Relay) look(ctx context.Context) {
	select {
	case a := <-r.answers:
		r.asking = false
		r.heard(ctx, a)
	default:
	}
	if r.asking {
		return
	}
	if r.board.reached() {
		r.outage.until = time.Time{}
	}
	now := time.Now()
	if now.Before(r.outage.until) || !r.board.asked() && now.Before(r.lookout.at) {
		return
	}
	r.asking = true
	go func() {
		err := r.ask(ctx)
		r.answers <- answer{err, time.Now()}
		r.board.ring()
	}()
}

func (r *Relay) heard(ctx context.Context, a answer) {
	switch {
	case ctx.Err() != nil:
	case a.err != nil:
		r.away(ctx, a.err, a.at)
		r.lookout.at = r.outage.until
	default:
		wait := r.Poll
		if r.Once {
			wait = never
		}
		r.looked, r.lookout.at = true, time.Now().Add(wait)
		if !r.outage.claims {
			r.outage.over()
		}
	}
}

// ask puts on the board who is owed something.
func (r *Relay) ask(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, claimTimeout)
	defer done()
	heads, revision, err := r.Ledger.Backlog(ctx)
	if err != nil {
		return err
	}
	if err := r.Book.Reach(ctx, revision); err != nil {
		return err
	}
	r.board.found(heads)
	return nil
}

// next is when the loop is to turn at the latest.
func (l *lookout) next(poll time.Duration) time.Time {
	if l.asking {
		return time.Now().Add(poll)
	}
	return l.at
}

// end waits for an answer that is still to come; its context has ended.
func (l *lookout) end() {
	if l.asking {
		<-l.answers
	}
}

// outage is a database that is away: it is tried again after 1, 2, 4, 8 and then always
// 15 seconds, and told of once each time, whoever found it.
type outage struct {
	wait   time.Duration
	until  time.Time
	claims bool // fail: that a question is answered ends nothing
}

// away notes that the ledger could not be asked or claimed from.
func (r *Relay) away(ctx context.Context, err error, at time.Time) {
	o := &r.outage
	if at.Before(o.until) {
		return
	}
	o.wait = min(max(2*o.wait, time.Second), 15*time.Second)
	o.until = at.Add(o.wait)
	r.Log.WarnContext(ctx, "the ledger cannot be claimed from; trying again", "in", o.wait, "err", err)
}

// over notes that it answers.
func (o *outage) over() { *o = outage{} }
