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
// is due, how many attempts each has in flight, and how many slots are free.
type board struct {
	book Book

	mu     sync.Mutex
	stands map[event.TargetID]*stand
	ready  []event.TargetID // in turn: a target that has had its quota goes to the back
	due    dueHeap          // when retries of this process become due
	free   int
	asking bool // the ledger is to be asked for the backlog

	bell chan struct{}
}

// stand is one target's place on the board.
type stand struct {
	queued    bool // in ready
	saturated bool // was passed over for want of room of its own
	woken     bool // owed something new since its quota was drawn
	inflight  int
	floor     time.Time // available_at below which the last claim left nothing
	swept     time.Time // when it was last claimed from without a floor
}

// Claims without a floor find rows that became visible late, lapsed leases, and rows
// handed back. The margin covers rows whose transactions were still open.
const (
	sweepEvery  = time.Second
	floorMargin = 2 * time.Second
	maxDrawn    = 256 // targets in one claim
)

func newBoard(slots int, book Book) *board {
	return &board{book: book, stands: map[event.TargetID]*stand{}, free: slots, bell: make(chan struct{}, 1)}
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

func (b *board) enqueue(id event.TargetID, s *stand) {
	s.woken = true
	if !s.queued {
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
		b.enqueue(id, b.stand(id))
	}
	b.mu.Unlock()
	b.ring()
}

// wakeAt marks a target as owed something at a later moment.
func (b *board) wakeAt(id event.TargetID, at time.Time) {
	b.mu.Lock()
	heap.Push(&b.due, dueTarget{at, id})
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

// asked reports, once, whether look was called.
func (b *board) asked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := b.asking
	b.asking = false
	return asked
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

// draw hands the free slots out: to each ready target in turn an equal share, but no
// more than it has room for. No quotas: nothing is ready, or nothing is free.
func (b *board) draw(batch int) []ledger.Quota {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for len(b.due) > 0 && !b.due[0].at.After(now) {
		id := heap.Pop(&b.due).(dueTarget).id
		b.enqueue(id, b.stand(id))
	}
	left := min(b.free, batch)
	turns := min(len(b.ready), maxDrawn)
	if left == 0 || turns == 0 {
		return nil
	}
	share := max(left/turns, 1)
	quotas := make([]ledger.Quota, 0, turns)
	for ; turns > 0 && left > 0; turns-- {
		id := b.ready[0]
		b.ready = b.ready[1:]
		if q := b.quota(id, min(share, left), now); q.N > 0 {
			quotas = append(quotas, q)
			left -= q.N
		}
	}
	return quotas
}

func (b *board) quota(id event.TargetID, most int, now time.Time) ledger.Quota {
	s := b.stand(id)
	s.queued, s.woken = false, false
	t := b.book.Target(id)
	if t == nil || t.Paused {
		return ledger.Quota{} // found again by the backlog once it can be attempted
	}
	room := t.Receiver.MaxConcurrency - s.inflight
	if room <= 0 {
		s.saturated = true
		return ledger.Quota{}
	}
	q := ledger.Quota{Target: id, N: min(room, most), Lease: t.Receiver.Lease, Floor: s.floor}
	if now.Sub(s.swept) >= sweepEvery {
		q.Floor, s.swept = time.Time{}, now
	}
	return q
}

// settle notes what quotas came to. A target whose quota came back full, or that was
// woken meanwhile, is ready again.
func (b *board) settle(quotas []ledger.Quota, claims []event.Claim) {
	got := make(map[event.TargetID]int, len(quotas))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range claims {
		c := &claims[i]
		if got[c.TargetID]++; got[c.TargetID] == 1 {
			// Claims are sorted: this is the head of its target's queue.
			b.stand(c.TargetID).floor = c.AvailableAt.Add(-floorMargin)
		}
	}
	for _, q := range quotas {
		s := b.stand(q.Target)
		s.inflight += got[q.Target]
		b.free -= got[q.Target]
		if got[q.Target] == q.N || s.woken {
			b.enqueue(q.Target, s)
		}
	}
}

// failed puts targets back whose claim failed.
func (b *board) failed(quotas []ledger.Quota) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range quotas {
		b.enqueue(q.Target, b.stand(q.Target))
	}
}

// done frees the slot of an attempt.
func (b *board) done(id event.TargetID) {
	b.mu.Lock()
	s := b.stand(id)
	s.inflight--
	b.free++
	if s.saturated {
		s.saturated = false
		b.enqueue(id, s)
	}
	ring := len(b.ready) > 0
	b.mu.Unlock()
	if ring {
		b.ring()
	}
}

// dueTarget is a target and when a delivery of it that this process put back is due.
type dueTarget struct {
	at time.Time
	id event.TargetID
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
