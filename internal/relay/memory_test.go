package relay_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// memory is a ledger and a registry in memory, under fake time: what the relay does
// with them is the same as with the real ones.
type memory struct {
	mu      sync.Mutex
	targets map[event.TargetID]*event.Target
	rows    map[event.ID]*row
	ended   map[event.ID]event.Status
	trail   []ledger.Entry
	claims  []time.Time // when Claim was called
	down    bool
	silent  bool // nothing is answered, ever
	records int  // how often Record was called

	unwritable bool             // Record fails
	writing    time.Duration    // before a record is answered
	written    []time.Time      // when Record was called
	releasing  time.Duration    // before claims are back
	succeeded  []event.TargetID // as reported
	stuck      bool             // Release fails
	pause      time.Duration    // before a claim is answered
	asking     time.Duration    // before the backlog is
	quotas     []ledger.Quota   // as claimed with
	reading    func()           // called when events are read
}

type row struct {
	event.Claim
	by    event.WorkerID
	lease time.Time
}

var errDown = &downError{}

// downError is a database that is not there.
type downError struct{}

func (*downError) Error() string   { return "connection refused" }
func (*downError) Timeout() bool   { return false }
func (*downError) Temporary() bool { return true }

func newMemory(receivers ...*event.Receiver) *memory {
	m := &memory{targets: map[event.TargetID]*event.Target{}, rows: map[event.ID]*row{}, ended: map[event.ID]event.Status{}}
	for i, r := range receivers {
		m.targets[event.TargetID(i+1)] = &event.Target{ID: event.TargetID(i + 1), Receiver: r, RateLimit: r.RateLimit}
	}
	return m
}

// silence is a connection that nothing comes from any more.
func (m *memory) silence(ctx context.Context) error {
	m.mu.Lock()
	silent := m.silent
	m.mu.Unlock()
	if !silent {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (m *memory) owe(target event.TargetID, n, budget int) []event.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make([]event.ID, n)
	for i := range ids {
		ids[i] = event.NewID(time.Now())
		m.rows[ids[i]] = &row{Claim: event.Claim{Fence: event.Fence{Delivery: ids[i]}, TargetID: target, MaxAttempts: budget,
			AvailableAt: time.Now(), OwedSince: time.Now(), Sending: 1, Event: event.Event{ID: event.NewID(time.Now()), Type: "a.b", Data: []byte("{}")}}}
	}
	return ids
}

func (m *memory) Claim(ctx context.Context, worker event.WorkerID, _ int, quotas []ledger.Quota) (ledger.Claims, error) {
	if err := m.silence(ctx); err != nil {
		return ledger.Claims{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims = append(m.claims, time.Now())
	m.quotas = append(m.quotas, quotas...)
	if m.down {
		return ledger.Claims{}, errDown
	}
	now := time.Now()
	var claimed []*event.Claim
	for _, q := range quotas {
		var due []*row
		for _, r := range m.rows {
			if r.TargetID == q.Target && r.lease.Before(now) && !r.AvailableAt.After(now) && ledger.PlaceOf(&r.Claim).Compare(q.Floor) >= 0 {
				due = append(due, r)
			}
		}
		slices.SortFunc(due, func(x, y *row) int { return ledger.InOrder(&x.Claim, &y.Claim) })
		for _, r := range due[:min(q.N, len(due))] {
			r.by, r.ClaimedAt, r.LeaseUntil, r.lease = worker, now, now.Add(q.Lease), now.Add(q.Lease)
			claimed = append(claimed, new(r.Claim))
		}
	}
	m.mu.Unlock()
	time.Sleep(m.pause)
	m.mu.Lock()
	return ledger.Claims{Claims: claimed, Revision: 1}, nil
}

func (m *memory) Record(ctx context.Context, worker event.WorkerID, entries []ledger.Entry) ([]bool, []ledger.Health, error) {
	if err := m.silence(ctx); err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records++
	m.written = append(m.written, time.Now())
	if m.down || m.unwritable {
		return nil, nil, errDown
	}
	m.mu.Unlock()
	time.Sleep(m.writing)
	m.mu.Lock()
	recorded := make([]bool, len(entries))
	for i, e := range entries {
		r := m.rows[e.Delivery]
		if r == nil || r.by != worker || !r.ClaimedAt.Equal(e.ClaimedAt) {
			continue
		}
		recorded[i] = true
		m.trail = append(m.trail, e)
		r.Attempts += e.Settlement.Spent
		if e.Settlement.Status.Terminal() {
			delete(m.rows, e.Delivery)
			m.ended[e.Delivery] = e.Settlement.Status
			continue
		}
		r.by, r.lease, r.AvailableAt = 0, time.Time{}, time.Now().Add(e.Settlement.Wait)
	}
	return recorded, nil, nil
}

func (m *memory) Release(ctx context.Context, worker event.WorkerID, fences []event.Fence) error {
	if err := m.silence(ctx); err != nil {
		return err
	}
	time.Sleep(m.releasing)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stuck {
		return errDown
	}
	for _, f := range fences {
		if r := m.rows[f.Delivery]; r != nil && r.by == worker && r.ClaimedAt.Equal(f.ClaimedAt) {
			r.by, r.lease = 0, time.Time{}
		}
	}
	return nil
}

func (m *memory) HandOver(_ context.Context, worker event.WorkerID, f event.Fence, lease time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[f.Delivery]
	if r == nil || r.by != worker || !r.ClaimedAt.Equal(f.ClaimedAt) {
		return false, nil
	}
	r.by, r.lease = -worker, time.Now().Add(lease)
	return true, nil
}

func (m *memory) TakeBack(_ context.Context, worker event.WorkerID, f event.Fence) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.rows[f.Delivery]; r != nil && r.by == -worker && r.ClaimedAt.Equal(f.ClaimedAt) {
		r.by, r.lease = 0, time.Time{}
	}
	return nil
}

func (m *memory) Take(_ context.Context, worker, by event.WorkerID, f event.Fence) (event.Claim, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[f.Delivery]
	if r == nil || r.by != -by || !r.ClaimedAt.Equal(f.ClaimedAt) {
		return event.Claim{}, 0, ledger.ErrClaimLost
	}
	now := time.Now()
	r.by, r.ClaimedAt, r.LeaseUntil = worker, now, now.Add(r.lease.Sub(now))
	return r.Claim, 1, nil
}

func (m *memory) Enroll(context.Context, string) (event.WorkerID, error) { return 7, nil }

func (m *memory) Pulled(ctx context.Context, _ string) ([]event.TargetID, int64, error) {
	heads, revision, err := m.Backlog(ctx)
	var targets []event.TargetID
	for _, h := range heads {
		if m.Target(h.Target).Pulled() {
			targets = append(targets, h.Target)
		}
	}
	return targets, revision, err
}

func (m *memory) Held(ctx context.Context, by ledger.Holding) (ledger.Held, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return ledger.Held{}, errDown
	}
	r := m.rows[by.Delivery]
	if r == nil || !r.ClaimedAt.Equal(by.ClaimedAt) {
		return ledger.Held{}, ledger.ErrClaimLost
	}
	return ledger.Held{Claim: r.Claim, Worker: r.by, For: time.Since(r.ClaimedAt)}, nil
}

func (m *memory) Extend(context.Context, ledger.Holding, time.Duration) (time.Time, error) {
	return time.Time{}, ledger.ErrClaimLost
}

func (m *memory) FindAll(_ context.Context, ids []event.ID) (map[event.ID]event.Event, error) {
	if m.reading != nil {
		m.reading()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[event.ID]event.Event{}
	for _, r := range m.rows {
		if slices.Contains(ids, r.Event.ID) {
			found[r.Event.ID] = r.Event
		}
	}
	return found, nil
}

func (m *memory) TargetOf(_ context.Context, id event.ID) (event.TargetID, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.rows[id]; r != nil {
		return r.TargetID, 1, nil
	}
	return 0, 0, ledger.ErrEnded
}

func (m *memory) ClaimOne(_ context.Context, worker event.WorkerID, id event.ID, lease time.Duration) (event.Claim, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rows[id]
	switch {
	case r == nil:
		return event.Claim{}, 0, ledger.ErrEnded
	case r.by != 0:
		return event.Claim{}, 0, ledger.ErrClaimed
	}
	now := time.Now()
	r.by, r.ClaimedAt, r.LeaseUntil, r.lease = worker, now, now.Add(lease), now.Add(lease)
	return r.Claim, 1, nil
}

func (m *memory) ClaimFresh(ctx context.Context, worker event.WorkerID, wanted []ledger.Fresh) (ledger.Claims, error) {
	if err := m.silence(ctx); err != nil {
		return ledger.Claims{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return ledger.Claims{}, errDown
	}
	now := time.Now()
	claimed := ledger.Claims{Revision: 1}
	for _, f := range wanted {
		if r := m.rows[f.ID]; r != nil && r.by == 0 && r.Attempts == 0 && !r.AvailableAt.After(now) {
			r.by, r.ClaimedAt, r.LeaseUntil, r.lease = worker, now, now.Add(f.Lease), now.Add(f.Lease)
			claimed.Claims = append(claimed.Claims, new(r.Claim))
		}
	}
	return claimed, nil
}

func (m *memory) Untried(_ context.Context, _ event.ID, ids []event.ID) (untried []event.ID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if r := m.rows[id]; r != nil && r.Attempts == 0 {
			untried = append(untried, id)
		}
	}
	return untried, nil
}

func (m *memory) Report(_ context.Context, _ event.WorkerID, _ []string, succeeded map[event.TargetID]time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return errDown
	}
	for id := range succeeded {
		m.succeeded = append(m.succeeded, id)
	}
	return nil
}

func (m *memory) Backlog(ctx context.Context) ([]ledger.Head, int64, error) {
	if err := m.silence(ctx); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	asking := m.asking
	m.mu.Unlock()
	select {
	case <-time.After(asking):
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, 0, errDown
	}
	now := time.Now()
	first := map[event.TargetID]ledger.Place{}
	for _, r := range m.rows {
		at, known := first[r.TargetID]
		place := ledger.PlaceOf(&r.Claim)
		if r.lease.Before(now) && !r.AvailableAt.After(now) && (!known || place.Compare(at) < 0) {
			first[r.TargetID] = place
		}
	}
	var heads []ledger.Head
	for id, at := range first {
		heads = append(heads, ledger.Head{Target: id, Place: at})
	}
	slices.SortFunc(heads, func(x, y ledger.Head) int { return int(x.Target) - int(y.Target) })
	return heads, 1, nil
}

func (m *memory) Target(id event.TargetID) *event.Target {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.targets[id]
}

func (m *memory) Reach(ctx context.Context, _ int64) error { return m.silence(ctx) }

func (m *memory) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

func (m *memory) setSilent(silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent = silent
}

// steal takes a row as another worker would, whose own clock is not ours.
func (m *memory) steal(id event.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[id].by = 99
}

// redeclare changes a target, for who reads it from now on.
func (m *memory) redeclare(id event.TargetID, change func(*event.Target)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := *m.targets[id]
	r := *t.Receiver
	t.Receiver = &r
	change(&t)
	m.targets[id] = &t
}

// heldOf is how many deliveries of a target are claimed.
func (m *memory) heldOf(id event.TargetID) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if r.TargetID == id && r.by != 0 {
			n++
		}
	}
	return n
}

// line has deliveries stand in line, a millisecond apart.
func (m *memory) line(ids []event.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, id := range ids {
		m.rows[id].AvailableAt = m.rows[id].AvailableAt.Add(time.Duration(i-len(ids)) * time.Millisecond)
	}
}

// endings is how many deliveries have ended.
func (m *memory) endings() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ended)
}

// recorded is how many attempts are on record.
func (m *memory) recorded() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.trail)
}

// claimsOf is how many claims asked for a target.
func (m *memory) claimsOf(id event.TargetID) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.quotas {
		if q.Target == id {
			n++
		}
	}
	return n
}

// most is the largest quota of a claim.
func (m *memory) most() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.quotas {
		n = max(n, q.N)
	}
	return n
}

func (m *memory) held() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if r.by != 0 {
			n++
		}
	}
	return n
}

// at is a row as it stands.
func (m *memory) at(id event.ID) row {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.rows[id]
}

func (m *memory) status(id event.ID) event.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended[id]
}
