package relay

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// board is what the relay knows of the work: which targets may be owed something that
// is due, how many attempts each has in flight, which destinations asked to be left
// alone, and how many slots are free.
type board struct {
	book  Book
	serve Lanes

	mu      sync.Mutex
	stands  map[event.TargetID]*stand
	lanes   map[string]*lane
	ready   []event.TargetID // in turn: a target that has had its quota goes to the back
	short   []event.TargetID // as ready, but for want of a free slot
	fresh   []event.TargetID // as short, but never heard of
	due     dueHeap          // when retries of this process become due, and rate limits let more begin
	slots   int
	free    int
	asking  bool // the ledger is to be asked for the backlog
	back    bool // the database was just reached
	paced   int  // targets that wait for their rate limit
	hurried int  // how many want rate limits not to be waited for
	limited bool // nothing is claimed ahead
	stopped bool // nothing that was begins any more

	ahead     int  // claims that are kept ahead, of all targets, or may come back to be
	watched   bool // somebody looks after them
	returning int  // claims that were kept, and are being handed back

	bell    chan struct{}
	resumed chan struct{} // ends a rest
}

// stand is one target's place on the board.
type stand struct {
	throttle                // of the target alone
	queued    bool          // in ready
	waiting   *throttle     // in whose held it is, or nil
	saturated bool          // was passed over for want of room of its own
	woken     bool          // owed something new since its quota was drawn
	floor     ledger.Place  // below which nothing is known to be left
	lowered   bool          // something was found since its quota was drawn, which the claim may not have seen
	alarms    int           // how often it is to be woken
	ahead     []ahead       // claimed, and to begin as attempts end; oldest first
	heardAt   time.Time     // when something other than a deferral last came back
	took      time.Duration // how long its last attempt took, or zero where none was made
	pace      pace
	alarm     time.Time // when its rate limit next lets something begin, where it waits for that
}

const (
	floorMargin = 2 * time.Second
	maxDrawn    = 256 // targets in one claim
	maxAlarms   = 64  // of one target
	reserved    = 8   // one slot in so many is kept for targets that are not known to be slow
)

// quickly is how long an attempt takes at most of a target that is well.
const quickly = time.Second

// trusted is for how long a receiver that may defer without counting is taken to be in
// the mood it was last seen in. A burst into one that was not heard of for longer begins
// with a single attempt, which learns for all the others whether they are welcome.
const trusted = time.Minute

// above is the floor that a claim leaves whose first row is given: what is before that is
// taken. But what became available lately may not be visible yet, as its transaction may be
// open still. What becomes visible later than that, lapsed leases, and rows that another
// process hands back are found by asking for the backlog.
func above(first *event.Claim) ledger.Place {
	if lately := first.ClaimedAt.Add(-floorMargin); first.AvailableAt.After(lately) {
		return ledger.Place{AvailableAt: lately}
	}
	return ledger.PlaceOf(first)
}

// lower notes that there is something at a place. Where that is not below the floor yet, a
// claim that is under way may have passed it over, and is not to raise the floor above it.
func (s *stand) lower(at ledger.Place) {
	s.lowered = true
	if at.Compare(s.floor) < 0 {
		s.floor = at
	}
}

func newBoard(slots int, book Book, serve Lanes) *board {
	return &board{
		book: book, serve: serve, stands: map[event.TargetID]*stand{}, lanes: map[string]*lane{},
		slots: slots, free: slots, bell: make(chan struct{}, 1), resumed: make(chan struct{}, 1),
	}
}

func (b *board) ring() {
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

func (b *board) stand(id event.TargetID) *stand {
	s := b.stands[id]
	if s == nil {
		s = &stand{}
		b.stands[id] = s
	}
	return s
}

func (b *board) lane(name string) *lane {
	l := b.lanes[name]
	if l == nil {
		l = &lane{name: name, most: b.serve.workers(name)}
		b.lanes[name] = l
	}
	return l
}

func (b *board) enqueue(id event.TargetID, s *stand) {
	s.woken = true
	if !s.queued && s.waiting == nil {
		s.queued = true
		b.ready = append(b.ready, id)
	}
}

// wake marks targets as owed something.
func (b *board) wake(targets []event.TargetID) {
	if len(targets) == 0 {
		return
	}
	b.mu.Lock()
	for _, id := range targets {
		s := b.stand(id)
		if b.movedOn(id, s) {
			s.waiting = nil
		}
		b.enqueue(id, s)
	}
	b.mu.Unlock()
	b.ring()
}

// found marks targets as owed what the ledger was seen to owe them.
func (b *board) found(heads []ledger.Head) {
	targets := make([]event.TargetID, len(heads))
	b.mu.Lock()
	for i, h := range heads {
		targets[i] = h.Target
		b.stand(h.Target).lower(h.Place)
	}
	b.mu.Unlock()
	b.wake(targets)
}

// movedOn reports whether a target waits for a lane that it is no longer in.
func (b *board) movedOn(id event.TargetID, s *stand) bool {
	if s.waiting == nil || s.waiting == &s.throttle {
		return false
	}
	t := b.book.Target(id)
	return t != nil && s.waiting != &b.lane(t.Receiver.Lane).throttle
}

// wakeAt marks a target as owed something at a later moment.
func (b *board) wakeAt(id event.TargetID, at time.Time) {
	b.mu.Lock()
	s := b.stand(id)
	if s.alarms == maxAlarms {
		b.mu.Unlock()
		return // it is woken often enough, and what is due later is found by looking
	}
	s.alarms++
	heap.Push(&b.due, dueTarget{at, id, false})
	first := b.due[0].at.Equal(at)
	b.mu.Unlock()
	if first {
		b.ring()
	}
}

func (b *board) look() {
	b.mu.Lock()
	b.asking = true
	b.mu.Unlock()
	b.ring()
}

func (b *board) resume() {
	b.mu.Lock()
	b.asking, b.back = true, true
	b.mu.Unlock()
	b.ring()
	select {
	case b.resumed <- struct{}{}:
	default:
	}
}

// rest waits after a failure, until resume is called at the latest.
func (b *board) rest(ctx context.Context, d time.Duration) {
	select {
	case <-b.resumed: // before
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.resumed:
	case <-ctx.Done():
	}
}

// asked reports, once, whether look was called.
func (b *board) asked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := b.asking
	b.asking = false
	return asked
}

// reached reports, once, whether resume was called.
func (b *board) reached() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	back := b.back
	b.back = false
	return back
}

// wait returns when there may be something to claim, at the latest at the given time.
func (b *board) wait(ctx context.Context, until time.Time) {
	b.mu.Lock()
	if len(b.due) > 0 && b.due[0].at.Before(until) {
		until = b.due[0].at
	}
	b.mu.Unlock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-b.bell:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// draw is a quota with the seats it takes; what comes back beyond them is kept ahead.
type draw struct {
	ledger.Quota
	seat  seat
	seats int
	paced bool // by a rate limit
}

// beyond is how many it may get that have no seat.
func (d *draw) beyond() int { return d.N - d.seats }

// draw hands the free slots out: to each ready target in turn an equal share, but no
// more than it has room for. No draws: nothing is ready, or nothing is free.
func (b *board) draw(batch int) []draw {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.ripen(now)
	for batch > 0 && b.free > 0 {
		b.relieve()
		if len(b.ready) == 0 {
			return nil
		}
		if draws := b.round(batch, now); len(draws) > 0 {
			return draws
		}
	}
	return nil
}

// round goes once through what is ready, all of it: those that have no room must not hide
// the others.
func (b *board) round(batch int, now time.Time) []draw {
	left, turns := min(b.free, batch), len(b.ready)
	most := min(turns, maxDrawn)
	share, beyond := max(left/most, 1), (batch-left)/most
	draws := make([]draw, 0, most)
	for ; turns > 0 && left > 0 && len(draws) < most; turns-- {
		id := b.ready[0]
		b.ready = b.ready[1:]
		if d := b.quota(id, min(share, left), beyond, now); d.seats > 0 {
			draws = append(draws, d)
			left -= d.seats
		}
	}
	return draws
}

// relieve makes as many ready of those that found no slot as there are slots for. Those that
// were never heard of are first.
func (b *board) relieve() {
	if n := min(max(b.free-b.lastSlots(), 0), len(b.fresh)); n > 0 {
		b.ready = append(b.fresh[:n:n], b.ready...)
		b.fresh = b.fresh[n:]
	}
	n := min(max(b.free-b.slots/reserved, 0), len(b.short))
	b.ready = append(b.ready, b.short[:n]...)
	b.short = b.short[n:]
}

// ripen makes those ready whose time has come.
func (b *board) ripen(now time.Time) {
	for len(b.due) > 0 && !b.due[0].at.After(now) {
		d := heap.Pop(&b.due).(dueTarget)
		s := b.stand(d.id)
		switch {
		case !d.paced:
			s.alarms--
		case d.at.Equal(s.alarm):
			b.paceAt(d.id, s, time.Time{})
		}
		b.enqueue(d.id, s)
	}
}

// paceAt has a target wait for the moment at which its rate limit lets something begin;
// zero: it does not wait.
func (b *board) paceAt(id event.TargetID, s *stand, at time.Time) {
	if at.Equal(s.alarm) {
		return
	}
	if s.alarm.IsZero() {
		b.paced++
	}
	s.alarm = at
	if at.IsZero() {
		b.paced--
		return
	}
	heap.Push(&b.due, dueTarget{at, id, true})
}

// paceOf is how many attempts a target's rate limit lets begin now. Claims are made one
// after the other, so what is drawn is noted, once it is claimed, before more is.
func (b *board) paceOf(t *event.Target, s *stand, now time.Time) int {
	if t.RateLimit == (event.Rate{}) || t.Deleted || b.hurried > 0 {
		b.paceAt(t.ID, s, time.Time{})
		return unlimited
	}
	n, at := s.pace.room(now, t.RateLimit)
	b.paceAt(t.ID, s, at)
	return n
}

// quota is what one target may be given now. Its seats are taken at once, so that the
// targets of one lane do not all find the same room. beyond is how many more may be claimed
// ahead.
func (b *board) quota(id event.TargetID, most, beyond int, now time.Time) draw {
	s := b.stand(id)
	s.queued, s.woken, s.lowered = false, false, false
	t := b.book.Target(id)
	if t == nil || t.Paused && !t.Deleted || t.Pulled() && !t.Deleted || !b.serve.serves(t) {
		return draw{} // found again by the backlog once it can be attempted here
	}
	l := b.lane(t.Receiver.Lane)
	inLane := l.room(now, l.most)
	if inLane == 0 || s.closed(now) {
		if s.waiting == nil {
			s.waiting = &s.throttle
			if inLane == 0 {
				s.waiting = &l.throttle
			}
			s.waiting.held = append(s.waiting.held, id)
		}
		return draw{}
	}
	if len(s.ahead) > 0 {
		s.saturated = true
		return draw{} // which is first
	}
	own := s.room(now, t.Receiver.MaxConcurrency)
	if t.Receiver.MayDefer() && now.Sub(s.heardAt) > trusted {
		own = min(own, max(1-s.inflight, 0))
	}
	if own == 0 {
		s.saturated = true
		return draw{}
	}
	if own = min(own, b.spare(s)); own == 0 {
		b.pass(id, s)
		return draw{}
	}
	paced := b.paceOf(t, s, now)
	if paced == 0 {
		return draw{}
	}
	n := min(own, inLane, most, paced)
	more := min(b.roomAhead(t, s, l, n, now), beyond)
	d := draw{
		Quota: ledger.Quota{Target: id, N: n + more, Lease: t.Receiver.Lease, Floor: s.floor},
		seat:  seat{target: id, lane: l, own: &s.throttle},
		paced: paced < unlimited,
	}
	b.take(&d, n)
	b.ahead += more
	return d
}

// take takes seats for a draw.
func (b *board) take(d *draw, n int) {
	d.seats += n
	d.seat.own.inflight += n
	d.seat.lane.inflight += n
	b.free -= n
}

// quick reports whether a target is known to be.
func (s *stand) quick() bool { return s.took > 0 && s.took < quickly }

// spare is how many of the free slots a target may take. The last ones are kept, in two
// parts, so that a target that is well gets its turn however many others hang: the whole
// from those known to be slow and those that have a first attempt under way, unless they
// are known to be quick; the rest from all but the first attempt of one that is quick. Those
// that were never heard of and wait go before the further attempts of one that is quick.
func (b *board) spare(s *stand) int {
	all, rest := b.slots/reserved, b.lastSlots()
	quick, idle := s.quick(), s.inflight == 0
	switch {
	case quick && idle:
		return max(b.free-rest, min(b.free, 1))
	case quick:
		return max(b.free-rest-len(b.fresh), 0)
	case idle && s.took == 0 && b.free > rest:
		return max(b.free-all, 1)
	}
	return max(b.free-all, 0)
}

// lastSlots is the second half of the slots that are kept.
func (b *board) lastSlots() int { return b.slots / reserved / 2 }

// pass notes that a target found no slot. One that has attempts under way and is not known to
// be slow looks again when one of them ends, and may then have of what is kept from others.
func (b *board) pass(id event.TargetID, s *stand) {
	switch {
	case s.inflight > 0 && s.took < quickly:
		s.saturated = true
		return
	case s.took == 0:
		b.fresh = append(b.fresh, id)
	default:
		b.short = append(b.short, id)
	}
	s.queued = true
}

// settle notes what draws came to, and gives back the seats that nobody took; what came
// beyond them takes those that became free meanwhile. A target
// whose quota came back full, or that was woken meanwhile, is ready again.
func (b *board) settle(draws []draw, claims []*event.Claim) {
	got := make(map[event.TargetID]int, len(draws))
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range claims {
		if got[c.TargetID]++; got[c.TargetID] == 1 {
			// Claims are sorted: this is the head of its target's queue.
			if s := b.stand(c.TargetID); !s.lowered {
				s.floor = above(c)
			}
		}
	}
	now := time.Now()
	for i := range draws {
		d := &draws[i]
		s := b.stand(d.Target)
		b.ahead -= d.beyond()
		if d.paced {
			s.pace.start(now, got[d.Target])
		}
		if unused := d.seats - got[d.Target]; unused > 0 {
			b.leave(d.seat, unused)
		} else if unused < 0 {
			b.widen(d, -unused, now)
		}
		if got[d.Target] == d.N || s.woken {
			b.enqueue(d.Target, s)
		}
	}
}

// handedBack notes claims that went back to their places, which may be below their floors,
// and are to be claimed again.
func (b *board) handedBack(claims []*event.Claim) {
	b.mu.Lock()
	for _, c := range claims {
		s := b.stand(c.TargetID)
		s.lower(ledger.PlaceOf(c))
		b.enqueue(c.TargetID, s)
	}
	b.mu.Unlock()
	b.ring()
}

// failed puts targets back whose claim failed.
func (b *board) failed(draws []draw) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range draws {
		b.ahead -= d.beyond()
		b.leave(d.seat, d.seats)
		b.enqueue(d.Target, b.stand(d.Target))
	}
}

// admits reports whether an attempt may still begin: a destination may have asked to be
// left alone while it was being claimed for.
func (b *board) admits(at seat) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	return !at.lane.closed(now) && !at.own.closed(now)
}

// done frees the seat of an attempt that was not made, and answers what nobody is left to
// begin.
func (b *board) done(at seat) (back []*event.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.vacate(at)
	if s := b.stand(at.target); s.inflight == 0 {
		back = b.dropAhead(s)
	}
	return back
}

// vacate frees a seat.
func (b *board) vacate(at seat) {
	b.leave(at, 1)
	if len(b.ready) > 0 || b.free == b.slots || len(b.short) > 0 && b.free > b.slots/reserved || len(b.fresh) > 0 && b.free > b.lastSlots() {
		b.ring()
	}
}

// leave gives seats back, and lets those look again who had found none.
func (b *board) leave(at seat, n int) {
	s := b.stand(at.target)
	at.own.inflight -= n
	at.lane.inflight -= n
	b.free += n
	if len(at.lane.held) > 0 && at.lane.room(time.Now(), at.lane.most) > 0 {
		b.readmit(&at.lane.throttle) // before the one that leaves: its seat is theirs
	}
	if s.saturated {
		s.saturated = false
		b.enqueue(at.target, s)
	}
}

// readmit lets the targets look again that a throttle had no room for.
func (b *board) readmit(t *throttle) {
	held := t.held
	t.held = nil
	for _, id := range held {
		if s := b.stand(id); s.waiting == t {
			s.waiting = nil
			b.enqueue(id, s)
		}
	}
}

// heard notes what an attempt's receiver said of its mood: for how long the scope of
// its pauses is to be left alone; zero: it took the delivery, or failed it, as usual.
// It reports whether a pause began.
func (b *board) heard(at seat, scope event.PauseScope, pause time.Duration) (began bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if pause == 0 {
		b.stand(at.target).heardAt = now
		at.lane.heard(0, now)
		at.own.heard(0, now)
		return false
	}
	b.stand(at.target).heardAt = time.Time{}
	t := &at.lane.throttle
	if scope == event.PauseTarget {
		t = at.own
	}
	began = !t.closed(now)
	t.heard(pause, now)
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(t.until.Sub(now), func() { b.reopen(t) })
	return began
}

// reopen ends a pause: one attempt may probe.
func (b *board) reopen(t *throttle) {
	b.mu.Lock()
	b.readmit(t)
	b.mu.Unlock()
	b.ring()
}

// hurry ends every pause, and has no rate limit waited for until done is called. It is
// for tests, which do not wait.
func (b *board) hurry() (done func()) {
	b.mu.Lock()
	b.hurried++
	for id, s := range b.stands {
		if !s.alarm.IsZero() {
			b.enqueue(id, s)
		}
	}
	for _, s := range b.stands {
		s.until, s.probing = time.Time{}, false
		b.readmit(&s.throttle)
	}
	for _, l := range b.lanes {
		l.until, l.probing = time.Time{}, false
		b.readmit(&l.throttle)
	}
	b.mu.Unlock()
	b.ring()
	return func() {
		b.mu.Lock()
		b.hurried--
		b.mu.Unlock()
	}
}

// idle reports whether nothing is ready, nothing waits for its rate limit, and nothing is
// in flight or going back.
func (b *board) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free == b.slots && len(b.ready) == 0 && len(b.short) == 0 && len(b.fresh) == 0 && b.paced == 0 && b.returning == 0
}

// pauses are those in force.
func (b *board) pauses() []event.Pause {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	var list []event.Pause
	for name, l := range b.lanes {
		if l.closed(now) {
			list = append(list, event.Pause{Lane: name, Until: l.until})
		}
	}
	for id, s := range b.stands {
		if s.closed(now) {
			list = append(list, event.Pause{Target: id, Until: s.until})
		}
	}
	return list
}

// dueTarget is a target and when it is to be looked at: a delivery of it that this process
// put back is due, or its rate limit lets one begin.
type dueTarget struct {
	at    time.Time
	id    event.TargetID
	paced bool
}

// dueHeap is a heap of them, soonest first.
type dueHeap []dueTarget

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueTarget)) }
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	popped := (*h)[last]
	*h = (*h)[:last]
	return popped
}
