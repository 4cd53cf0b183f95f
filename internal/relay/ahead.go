package relay

import (
	"context"
	"sync"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// What is claimed ahead of the seats that are free begins as attempts of its target end, so
// that a statement claims for many attempts and none of them waits for it. It is what a
// target that is quick ends within aheadFor, as it did lately, which is far less than any
// lease leaves. It goes back at once where that turns out wrong: the target became slow,
// asked to be left alone, was paused or is gone, or the process stops.
const aheadFor = 100 * time.Millisecond

// ahead is a claim whose attempt has not begun.
type ahead struct {
	claim event.Claim
	began time.Time // before it was asked for
}

// roomAhead is how many more of a target may be claimed ahead, where n of its attempts are about
// to begin. What a rate limit, an uncounted deferral or a hand-over may hold up is not.
func (b *board) roomAhead(t *event.Target, s *stand, n int) int {
	if b.limited || !s.quick() || s.probing || t.Deleted || t.Receiver.MayDefer() || t.Receiver.Task || t.RateLimit != (event.Rate{}) {
		return 0
	}
	most := int(int64(s.inflight+n) * int64(aheadFor) / int64(s.took))
	return max(min(most-len(s.ahead), b.slots-b.ahead), 0)
}

// part parts claims, oldest first, into those that have a seat and those to be kept.
func part(draws []draw, claims []event.Claim) (now, later []event.Claim) {
	left := make(map[event.TargetID]int, len(draws))
	for _, d := range draws {
		left[d.Target] = d.seats
	}
	for _, c := range claims {
		if left[c.TargetID] > 0 {
			left[c.TargetID]--
			now = append(now, c)
		} else {
			later = append(later, c)
		}
	}
	return now, later
}

// keep keeps claims for when attempts of their targets end.
func (b *board) keep(claims []event.Claim, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range claims {
		s := b.stand(c.TargetID)
		s.ahead = append(s.ahead, ahead{c, began})
	}
	b.ahead += len(claims)
}

// next notes that an attempt that took so long has ended, and answers what is to begin in
// its seat. Where there is nothing the seat is free, and what may not begin goes back.
func (b *board) next(at seat, took time.Duration) (a ahead, more bool, back []event.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stand(at.target)
	if took > 0 {
		s.took = took
	}
	if len(s.ahead) > 0 {
		if b.mayBegin(at, s) {
			a, s.ahead = s.ahead[0], s.ahead[1:]
			b.ahead--
			a.claim.To = b.book.Target(at.target)
			return a, true, nil
		}
		back = b.dropAhead(s)
	}
	b.vacate(at)
	return ahead{}, false, back
}

// mayBegin reports whether what was claimed ahead of a target may begin in a seat of it.
func (b *board) mayBegin(at seat, s *stand) bool {
	t, now := b.book.Target(at.target), time.Now()
	return !b.stopped && s.quick() && !s.probing && !s.closed(now) && !at.lane.probing && !at.lane.closed(now) &&
		t != nil && !t.Paused && !t.Deleted && !t.Pulled() && t.Receiver.Lane == at.lane.name && b.serve.serves(t) &&
		s.inflight <= t.Receiver.MaxConcurrency
}

// dropAhead forgets what was claimed ahead of a target, and answers it.
func (b *board) dropAhead(s *stand) (claims []event.Claim) {
	for _, a := range s.ahead {
		s.lower(a.claim.AvailableAt)
		claims = append(claims, a.claim)
	}
	b.ahead -= len(s.ahead)
	s.ahead = nil
	return claims
}

// stop has nothing begin that was claimed ahead, and answers what was.
func (b *board) stop() (claims []event.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	for _, s := range b.stands {
		claims = append(claims, b.dropAhead(s)...)
	}
	return claims
}

// sit makes an attempt in a seat, which goes on to the next of its target once this one has
// nothing to do but be recorded.
func (r *Relay) sit(at seat, a *ahead) {
	started, counted := time.Now(), false
	rise := sync.OnceFunc(func() { r.rise(at, max(time.Since(started), 1)) })
	defer rise()
	defer func() {
		if counted {
			r.unrecorded.Add(-1)
		}
	}()
	switch r.dispatch(&a.claim, a.began, course{
		answered: func() bool {
			if r.unrecorded.Add(1) > int64(r.Slots) {
				r.unrecorded.Add(-1)
				return false
			}
			counted = true
			rise()
			return true
		},
		came: func(result event.Result) {
			r.came(&a.claim, at, &result)
			rise()
		},
	}) {
	case handedOver:
		r.board.heard(at, event.PauseTarget, 0)
	case notHandedOver:
		r.board.heard(at, event.PauseTarget, handOverPause)
	}
}

// rise gives a seat to what was claimed ahead for it, or frees it.
func (r *Relay) rise(at seat, took time.Duration) {
	next, more, back := r.board.next(at, took)
	if more && !r.begin(func() { r.sit(at, &next) }) {
		back = append(r.board.done(at), next.claim)
	}
	if len(back) > 0 && !r.begin(func() { r.putBack(r.work, back) }) {
		r.putBack(r.work, back)
	}
}

// putBack hands back claims that hold no seat.
func (r *Relay) putBack(ctx context.Context, claims []event.Claim) {
	if len(claims) > 0 {
		r.handBack(context.WithoutCancel(ctx), fencesOf(claims)...)
		r.board.handedBack(claims)
	}
}
