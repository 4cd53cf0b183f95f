package relay_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// narrow is a receiver with few attempts at once.
func narrow(key string, most int) *event.Receiver {
	r := receiver(key)
	r.MaxConcurrency = most
	return r
}

// counter answers every delivery, after its work, and knows what began when.
type counter struct {
	mu    sync.Mutex
	began map[event.ID]time.Time
	now   map[event.TargetID]int // under way
	most  map[event.TargetID]int
	work  func(c *event.Claim) time.Duration
	hang  chan struct{} // where set, no attempt ends before it is closed
	t     *testing.T
}

func count(t *testing.T, work time.Duration) *counter {
	return &counter{t: t, began: map[event.ID]time.Time{}, now: map[event.TargetID]int{}, most: map[event.TargetID]int{},
		work: func(*event.Claim) time.Duration { return work }}
}

func (c *counter) attempt(_ context.Context, claim *event.Claim) event.Verdict {
	if left := time.Until(claim.LeaseUntil); left < claim.To.Receiver.Timeout+event.LeaseMargin/2 {
		c.t.Errorf("an attempt begins with %v of its lease left", left)
	}
	c.mu.Lock()
	c.began[claim.Delivery] = time.Now()
	c.now[claim.TargetID]++
	c.most[claim.TargetID] = max(c.most[claim.TargetID], c.now[claim.TargetID])
	hang, work := c.hang, c.work
	c.mu.Unlock()
	time.Sleep(work(claim))
	if hang != nil {
		<-hang
	}
	c.mu.Lock()
	c.now[claim.TargetID]--
	c.mu.Unlock()
	return event.Verdict{Ruling: event.Success}
}

// takes says how long what begins from now on takes.
func (c *counter) takes(work func(*event.Claim) time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work = work
}

// peak is how many were under way at most.
func (c *counter) peak(id event.TargetID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most[id]
}

// hold has what begins from now on hang until it is let go.
func (c *counter) hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang = make(chan struct{})
	return sync.OnceFunc(func() { close(c.hang) })
}

func (c *counter) under(id event.TargetID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now[id]
}

func (c *counter) begun() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.began)
}

// unbegun are the rows of those deliveries that are owed and that no attempt was begun of.
func (c *counter) unbegun(m *memory, ids []event.ID) (rows []row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if r := m.rows[id]; r != nil && c.began[id].IsZero() {
			rows = append(rows, *r)
		}
	}
	return rows
}

// kept is how many deliveries of a target are claimed that no attempt was begun of.
func (c *counter) kept(m *memory, id event.TargetID) (n int) {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range m.rows {
		if r.TargetID == id && r.by != 0 && c.began[r.Delivery].IsZero() {
			n++
		}
	}
	return n
}

// inOrder fails a test where one of deliveries did not begin, or before one in front of it.
func (c *counter) inOrder(ids []event.ID) {
	c.t.Helper()
	at := make([]time.Time, len(ids))
	for i, id := range ids {
		at[i] = c.began[id]
	}
	if slices.ContainsFunc(at, time.Time.IsZero) || !slices.IsSortedFunc(at, time.Time.Compare) {
		c.t.Error("what became available later began before")
	}
}

// until waits for something, a millisecond at a time.
func until(t *testing.T, what string, within time.Duration, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// keeping is a relay at work that keeps claims of its first target.
func keeping(t *testing.T, m *memory, c *counter, change ...func(*relay.Options)) (s *station, ids []event.ID) {
	t.Helper()
	s = start(t, m, c.attempt, change...)
	m.owe(1, 8, 5) // which tell how long it takes
	s.Wake([]event.TargetID{1})
	until(t, "the first are delivered", time.Second, func() bool { return m.endings() == 8 })
	ids = m.owe(1, 300, 5)
	s.Wake([]event.TargetID{1})
	until(t, "something is kept", time.Second, func() bool { return c.kept(m, 1) > 5 })
	return s, ids
}

// What is owed to a target is claimed in the order of available_at, and begins in it.
func TestWhatIsClaimedAheadBeginsInOrderAndWithinItsBound(t *testing.T) {
	for name, c := range map[string]struct {
		pause       time.Duration
		slots, most int
		bound       int
		claims      int // at most
	}{
		"claims are quick":          {slots: 256, most: 4, bound: 4, claims: 60},
		"claims take their time":    {pause: 7 * time.Millisecond, slots: 256, most: 4, bound: 4, claims: 60},
		"there are but a few slots": {slots: 6, most: 32, bound: 6, claims: 550},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, seen := newMemory(narrow("k", c.most), receiver("other")), count(t, 0)
				m.pause = c.pause
				seen.work = func(claim *event.Claim) time.Duration {
					return 5*time.Millisecond + time.Duration(claim.Delivery[15])*5*time.Microsecond
				}
				s := start(t, m, seen.attempt, func(o *relay.Options) { o.Slots = c.slots })
				ids := m.owe(1, 500, 5)
				m.line(ids)
				s.Wake([]event.TargetID{1})
				for range 50 { // and what is woken meanwhile
					m.owe(2, 1, 5)
					s.Wake([]event.TargetID{1, 2})
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if m.endings() != 550 || seen.peak(1) != c.bound {
					t.Fatalf("%d of 550 were delivered, at most %d at once", m.endings(), seen.peak(1))
				}
				seen.inOrder(ids)
				if of := m.claimsOf(1); of > c.claims {
					t.Errorf("%d claims were made for 500 deliveries", of)
				}
			})
		})
	}
}

func TestNothingIsClaimedOfATargetWhileSomethingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receivers, all := alike(12)
		m, c := newMemory(receivers...), count(t, 0)
		c.work = func(claim *event.Claim) time.Duration {
			if claim.TargetID == 1 {
				return 40 * time.Millisecond
			}
			return time.Millisecond
		}
		s := start(t, m, c.attempt, func(o *relay.Options) { o.Poll = time.Hour })
		for _, id := range all {
			m.owe(id, 1, 5)
		}
		s.Wake(all)
		time.Sleep(time.Second)
		ids := m.owe(1, 500, 5)
		m.line(ids)
		for _, id := range all[1:] {
			m.owe(id, 21, 5)
		}
		s.Wake(all)
		time.Sleep(5 * time.Millisecond)
		if c.kept(m, 1) == 0 || c.under(1) == 32 || c.under(2) != 0 {
			t.Fatalf("%d are kept, %d and %d are under way: nothing is kept, or there is no room besides", c.kept(m, 1), c.under(1), c.under(2))
		}
		s.Wake([]event.TargetID{1})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		c.inOrder(ids)
	})
}

// Seats that become free while a claim is under way are for what comes back of it.
func TestWhatComesBackBeyondItsSeatsTakesThoseThatBecameFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(receiver("k")), count(t, 15*time.Millisecond)
		s := start(t, m, c.attempt)
		m.owe(1, 1, 5)
		s.Wake([]event.TargetID{1})
		time.Sleep(time.Second)
		early := m.owe(1, 32, 5)[0]
		c.takes(func(claim *event.Claim) time.Duration {
			if claim.Delivery == early {
				return 10 * time.Millisecond // its seat is claimed for while the others' are taken
			}
			return 15 * time.Millisecond
		})
		s.Wake([]event.TargetID{1})
		synctest.Wait()
		m.mu.Lock()
		m.pause = 50 * time.Millisecond
		m.mu.Unlock()
		m.owe(1, 40, 5)
		s.Wake([]event.TargetID{1})
		began := time.Now()
		until(t, "all are delivered", time.Minute, func() bool { return m.endings() == 1+32+40 })
		// An attempt, a claim, and two attempts one after the other; not forty.
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// P4, P9, P12: what cannot begin is nobody's to keep.
func TestWhatIsKeptGoesBackUnspentAsSoonAsItCannotBegin(t *testing.T) {
	soon := aheadSoon
	for name, c := range map[string]struct {
		change func(s *station, m *memory)
		within time.Duration
	}{
		"paused":         {func(_ *station, m *memory) { m.redeclare(1, func(to *event.Target) { to.Paused = true }) }, soon},
		"gone":           {func(_ *station, m *memory) { m.redeclare(1, func(to *event.Target) { to.Deleted = true }) }, soon},
		"gone to a lane": {func(_ *station, m *memory) { m.redeclare(1, func(to *event.Target) { to.Receiver.Lane = "elsewhere" }) }, soon},
		"to have a rate": {func(_ *station, m *memory) {
			m.redeclare(1, func(to *event.Target) { to.RateLimit = event.Rate{Count: 1, Per: time.Hour} })
		}, soon},
		"a task":  {func(_ *station, m *memory) { m.redeclare(1, func(to *event.Target) { to.Receiver.Task = true }) }, soon},
		"unknown": {func(_ *station, m *memory) { m.mu.Lock(); delete(m.targets, 1); m.mu.Unlock() }, soon},
		"in a lane that is asked to wait": {func(s *station, m *memory) {
			m.owe(2, 1, 5)
			s.Wake([]event.TargetID{2})
		}, soon},
		"hanging":            {func(*station, *memory) {}, time.Second + soon},
		"of what is stopped": {func(s *station, _ *memory) { s.stop() }, 0},
	} {
		for _, hangs := range []bool{true, false} {
			if (name == "hanging" || name == "gone") && !hangs { // what is gone is orphaned otherwise
				continue
			}
			t.Run(name+map[bool]string{true: ", and every attempt hangs"}[hangs], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, seen := newMemory(narrow("k", 2), throttled("mailer", "default")), count(t, 10*time.Millisecond)
					s, ids := keeping(t, m, seen, func(o *relay.Options) {
						o.Lanes.Served, o.Poll = []string{"default"}, time.Hour
						o.Courier = courier(func(ctx context.Context, claim *event.Claim) event.Verdict {
							if claim.TargetID == 2 {
								return deferral(time.Hour)
							}
							return seen.attempt(ctx, claim)
						})
					})
					release := func() {}
					if hangs {
						release = seen.hold()
						time.Sleep(20 * time.Millisecond) // the two that are under way end, and two hang
					}
					if seen.kept(m, 1) == 0 {
						t.Fatal("nothing is kept")
					}
					c.change(s, m)
					time.Sleep(c.within)
					if n := seen.kept(m, 1); n != 0 {
						t.Errorf("%d are kept", n)
					}
					begun := seen.begun()
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
					if more := seen.begun() - begun; more != 0 {
						t.Errorf("%d attempts began after it", more)
					}
					if hangs && seen.under(1) != 2 {
						t.Errorf("%d are under way, want 2", seen.under(1))
					}
					back := 0
					for _, r := range seen.unbegun(m, ids) {
						back++
						if r.by != 0 || r.Attempts != 0 || r.AvailableAt.After(time.Now().Add(-c.within)) {
							t.Errorf("a delivery went back as %+v", r)
						}
					}
					if back < 100 {
						t.Errorf("only %d are still owed", back)
					}
					release()
				})
			})
		}
	}
}

// aheadSoon is within what somebody looks after what is kept.
const aheadSoon = 100 * time.Millisecond

func TestATargetThatTurnsSlowHasNothingKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(narrow("k", 3)), count(t, 10*time.Millisecond)
		s := start(t, m, c.attempt, func(o *relay.Options) { o.Poll = time.Hour })
		m.owe(1, 8, 5)
		s.Wake([]event.TargetID{1})
		time.Sleep(time.Second)
		const slowly = 1505 * time.Millisecond // between two ends of the others
		ids := m.owe(1, 2000, 5)
		m.line(ids)
		c.takes(func(claim *event.Claim) time.Duration {
			if claim.Delivery == ids[0] {
				return slowly
			}
			return 10 * time.Millisecond
		})
		s.Wake([]event.TargetID{1})
		time.Sleep(slowly - time.Millisecond)
		if c.kept(m, 1) == 0 {
			t.Fatal("nothing is kept before")
		}
		time.Sleep(time.Millisecond)
		if n := c.kept(m, 1); n != 0 {
			t.Errorf("%d are kept of a target that just took 1.5 s", n)
		}
		time.Sleep(10 * time.Second)
		if n := m.endings(); n != 2008 {
			t.Errorf("%d of 2008 were delivered: what went back is not found again", n)
		}
	})
}

// What goes back is not below the floor yet when that is noted: the claim raises it afterwards.
func TestWhatGoesBackWhileAClaimIsUnderWayIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(narrow("k", 3)), count(t, 10*time.Millisecond)
		m.releasing, m.pause = time.Millisecond, 5*time.Millisecond
		s := start(t, m, c.attempt, func(o *relay.Options) { o.Poll = time.Hour })
		m.owe(1, 8, 5)
		s.Wake([]event.TargetID{1})
		time.Sleep(time.Second)
		ids := m.owe(1, 2000, 5)
		m.line(ids)
		c.takes(func(claim *event.Claim) time.Duration {
			if claim.Delivery == ids[0] {
				return 1505 * time.Millisecond // after which the target is slow, and keeps nothing
			}
			return 10 * time.Millisecond
		})
		s.Wake([]event.TargetID{1})
		time.Sleep(time.Minute)
		if n := m.endings(); n != 2008 {
			t.Errorf("%d of 2008 were delivered", n)
		}
	})
}

// P9: neither a claim that is under way nor the grace holds up what never began.
func TestAStopHandsBackWhatIsKeptBesideAClaimThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(narrow("k", 2), receiver("other")), count(t, 10*time.Millisecond)
		s, _ := keeping(t, m, c)
		release := c.hold()
		time.Sleep(20 * time.Millisecond)
		m.mu.Lock()
		m.pause = 5 * time.Second
		m.mu.Unlock()
		m.owe(2, 1, 5)
		s.Wake([]event.TargetID{2})
		synctest.Wait()
		if c.kept(m, 1) == 0 || m.heldOf(2) != 1 {
			t.Fatal("nothing is kept, or no claim is under way")
		}
		s.stop()
		synctest.Wait()
		if n := m.heldOf(1); n != 2 {
			t.Errorf("%d are held by a process that stops and has 2 under way", n)
		}
		begun := c.begun()
		release()
		<-s.done
		if m.held() != 0 || c.begun() != begun {
			t.Errorf("%d are held, %d began after the stop", m.held(), c.begun()-begun)
		}
	})
}

func TestANarrowerBoundHoldsForWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(narrow("k", 8)), count(t, 10*time.Millisecond)
		keeping(t, m, c)
		m.redeclare(1, func(to *event.Target) { to.Receiver.MaxConcurrency = 3 })
		time.Sleep(20 * time.Millisecond)
		for range 20 {
			if c.under(1) > 3 {
				t.Fatalf("%d are under way, of 3 at most", c.under(1))
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func TestNoMoreIsKeptThanThereAreSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receivers, all := alike(20)
		m, c := newMemory(receivers...), count(t, 3*time.Millisecond)
		m.pause = time.Millisecond
		s := start(t, m, c.attempt, func(o *relay.Options) { o.Slots = 64 })
		owe := func(n int) {
			for _, id := range all {
				m.owe(id, n, 5)
			}
			s.Wake(all)
		}
		owe(1)
		time.Sleep(time.Second)
		owe(200)
		most := 0
		for m.endings() < 20*201 {
			time.Sleep(time.Millisecond)
			kept := 0
			for _, id := range all {
				kept += c.kept(m, id)
			}
			most = max(most, kept)
		}
		if most > 64+64 || most == 0 { // what a claim that is under way brings has its seats taken, and is not begun yet
			t.Errorf("%d were kept at a time, with 64 slots", most)
		}
	})
}

func TestNothingIsClaimedAheadThatMayNotBeginAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*event.Receiver)
		option func(*relay.Options)
		work   time.Duration
		ahead  bool
	}{
		"quick":        {ahead: true},
		"rate-limited": {change: func(r *event.Receiver) { r.RateLimit = event.Rate{Count: 1000, Per: time.Second} }},
		"deferring":    {change: func(r *event.Receiver) { r.CountDeferrals, r.GiveUpAfter = false, time.Hour }},
		"handed over":  {change: func(r *event.Receiver) { r.Task = true }},
		"slow":         {work: time.Second},
		"limited":      {option: func(o *relay.Options) { o.Limit = 1000 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := narrow("k", 20)
				if c.change != nil {
					c.change(r)
				}
				m, seen := newMemory(r), count(t, c.work)
				m.targets[1].URL = "https://shop.example.com/hooks"
				s := start(t, m, seen.attempt, handing(&post{}), func(o *relay.Options) {
					if c.option != nil {
						c.option(o)
					}
				})
				for range 20 {
					m.owe(1, 100, 5)
					s.Wake([]event.TargetID{1})
					time.Sleep(time.Second)
				}
				if most := m.most(); (most > 20) != c.ahead || most == 0 {
					t.Errorf("%d were claimed at a time, where 20 may be under way", most)
				}
			})
		})
	}
}

func TestOnceEndsWithNothingThatWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(narrow("k", 1)), count(t, 10*time.Millisecond)
		m.releasing = 5 * time.Millisecond
		ids := m.owe(1, 98, 5)
		slow := ids[89] // the first of the last claim, which is not full
		m.line(ids)
		c.work = func(claim *event.Claim) time.Duration {
			if claim.Delivery == slow {
				return time.Second
			}
			return 10 * time.Millisecond
		}
		s := start(t, m, c.attempt, func(o *relay.Options) { o.Once = true })
		<-s.done
		if m.endings() != 98 || m.held() != 0 || !s.Finished() {
			t.Errorf("it ends with %d of 98 delivered, %d held", m.endings(), m.held())
		}
	})
}
