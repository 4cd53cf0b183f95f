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
// lease leaves. Nothing is claimed for a target while something is kept for it, so what it is
// owed begins in order; and as long as something is, one of its seats is taken, whose attempt
// begins it or has it go back. It goes back at once where that turns out wrong: the target
// became slow, asked to be left alone, was declared otherwise, paused or is gone, another
// waits for its last seat, or the process stops; and where every attempt hangs, within quickly.
const aheadFor = 100 * time.Millisecond

// ahead is a claim whose attempt has not begun.
type ahead struct {
	claim *event.Claim
	began time.Time // before it was asked for
	since time.Time // it is kept
}

// roomAhead is how many of a target may be claimed ahead, where n of its attempts are about
// to begin. Where others waited for room lately there is none: it would go back to them.
func (b *board) roomAhead(t *event.Target, s *stand, l *lane, n int, now time.Time) int {
	if b.limited || !s.quick() || s.probing || !steady(t) || now.Sub(l.wanted) < quickly {
		return 0
	}
	most := int(int64(s.inflight+n) * int64(aheadFor) / int64(s.took))
	return max(min(most, b.slots-b.ahead), 0)
}

// steady reports whether nothing but its receiver's pace is to hold up a target's attempts:
// no rate limit, uncounted deferral, or hand-over.
func steady(t *event.Target) bool {
	return !t.Paused && !t.Deleted && !t.Receiver.MayDefer() && !t.Receiver.Task && t.RateLimit == (event.Rate{})
}

// widen gives what a draw got beyond its seats those that became free while it was claimed.
func (b *board) widen(d *draw, beyond int, now time.Time) {
	t, s := b.book.Target(d.Target), b.stand(d.Target)
	if t == nil {
		return
	}
	n := min(beyond, s.room(now, t.Receiver.MaxConcurrency), d.seat.lane.room(now, d.seat.lane.most), b.spare(s))
	b.take(d, n)
}

// part parts claims, oldest first, into those that have a seat and those to be kept.
func part(draws []draw, claims []*event.Claim) (now, later []*event.Claim) {
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

// keep keeps claims for when attempts of their targets end, and reports whether somebody is
// to look after them. Once the process stops it keeps none, and answers them.
func (b *board) keep(claims []*event.Claim, began time.Time) (watch bool, back []*event.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		b.returning += len(claims)
		return false, claims
	}
	now := time.Now()
	for _, c := range claims {
		s := b.stand(c.TargetID)
		s.ahead = append(s.ahead, ahead{c, began, now})
	}
	b.ahead += len(claims)
	watch = b.ahead > 0 && !b.watched
	b.watched = b.watched || watch
	return watch, nil
}

// next notes that an attempt that took so long has ended, and answers what is to begin in
// its seat. Where there is nothing the seat is free, and what may not begin goes back.
func (b *board) next(at seat, took time.Duration) (a ahead, more bool, back []*event.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, now := b.stand(at.target), time.Now()
	if took > 0 {
		s.took = took
	}
	if len(s.ahead) > 0 {
		wanted := b.wanted(at, s, now)
		switch {
		case !b.mayBegin(at, s, now) || wanted && s.inflight == 1:
			back = b.dropAhead(s)
		case !wanted:
			return b.pop(at, s), true, nil
		}
	}
	b.vacate(at)
	return ahead{}, false, back
}

// pop takes the first of what is kept for a target. Nothing holds it any longer: its data may
// be large.
func (b *board) pop(at seat, s *stand) ahead {
	a := s.ahead[0]
	s.ahead[0] = ahead{}
	if s.ahead = s.ahead[1:]; len(s.ahead) == 0 {
		s.ahead = nil
	}
	b.ahead--
	a.claim.To = b.book.Target(at.target)
	return a
}

// wanted reports whether others can go on only if a target with claims kept gives up a seat
// (P4): those that were never heard of, for one attempt, or whoever has no slot or no place in
// the lane. Of these it takes note.
func (b *board) wanted(at seat, s *stand, now time.Time) bool {
	others := len(b.ready)
	if s.queued {
		others--
	}
	if b.free == 0 && others > 0 || len(at.lane.held) > 0 && at.lane.room(now, at.lane.most) == 0 {
		at.lane.wanted = now
		return true
	}
	return len(b.fresh) > 0 && b.free <= b.lastSlots()
}

// mayBegin reports whether what was claimed ahead of a target may begin in a seat of it.
func (b *board) mayBegin(at seat, s *stand, now time.Time) bool {
	t := b.book.Target(at.target)
	return !b.stopped && b.worthKeeping(t, s, now) && s.quick() && t.Receiver.Lane == at.lane.name && s.inflight <= t.Receiver.MaxConcurrency
}

// worthKeeping reports whether what was claimed ahead of a target is likely to begin soon.
func (b *board) worthKeeping(t *event.Target, s *stand, now time.Time) bool {
	if t == nil || !steady(t) || !b.serve.serves(t) || s.probing || s.closed(now) {
		return false
	}
	l := b.lane(t.Receiver.Lane)
	return !l.probing && !l.closed(now)
}

// dropAhead forgets what was claimed ahead of a target, and answers it.
func (b *board) dropAhead(s *stand) (claims []*event.Claim) {
	for _, a := range s.ahead {
		claims = append(claims, a.claim)
	}
	b.ahead -= len(s.ahead)
	b.returning += len(s.ahead)
	s.ahead = nil
	return claims
}

// overdue answers what is kept in vain though no attempt has ended to find that out, and
// reports whether there is more to look after.
func (b *board) overdue() (claims []*event.Claim, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for id, s := range b.stands {
		if len(s.ahead) > 0 && (now.Sub(s.ahead[0].since) >= quickly || !b.worthKeeping(b.book.Target(id), s, now)) {
			claims = append(claims, b.dropAhead(s)...)
		}
	}
	b.watched = b.ahead > 0
	return claims, b.watched
}

// stop has nothing begin that was claimed ahead, and answers what was.
func (b *board) stop() (claims []*event.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	for _, s := range b.stands {
		claims = append(claims, b.dropAhead(s)...)
	}
	return claims
}

// returned notes that so many of what was dropped have gone back.
func (b *board) returned(n int) {
	b.mu.Lock()
	b.returning -= n
	b.mu.Unlock()
	b.ring()
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
	switch r.dispatch(a.claim, a.began, course{
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
			r.came(a.claim, at, &result)
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
		back = r.board.done(at)
		r.putBack(r.work, []*event.Claim{next.claim})
	}
	r.giveBack(back)
}

// keep keeps claims for when attempts of their targets end.
func (r *Relay) keep(claims []*event.Claim, began time.Time) {
	watch, back := r.board.keep(claims, began)
	if watch {
		time.AfterFunc(aheadFor, r.watch)
	}
	r.giveBack(back)
}

// watch looks after what is kept, for as long as something is.
func (r *Relay) watch() {
	back, more := r.board.overdue()
	if more {
		time.AfterFunc(aheadFor, r.watch)
	}
	r.giveBack(back)
}

// recall has go back what is kept, for good.
func (r *Relay) recall() {
	r.recalling.Lock()
	defer r.recalling.Unlock()
	r.giveBack(r.board.stop())
}

// giveBack hands back what the board dropped, which a stop waits for and nobody else.
func (r *Relay) giveBack(claims []*event.Claim) {
	if len(claims) == 0 {
		return
	}
	do := func() {
		r.putBack(r.work, claims)
		r.board.returned(len(claims))
	}
	if !r.begin(do) {
		do()
	}
}

// putBack hands back claims that hold no seat.
func (r *Relay) putBack(ctx context.Context, claims []*event.Claim) {
	if len(claims) > 0 {
		r.handBack(context.WithoutCancel(ctx), fencesOf(claims)...)
		r.board.handedBack(claims)
	}
}
