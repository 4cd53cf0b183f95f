package relay_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// script answers each delivery so long after it began, with what.
type script struct {
	after map[event.ID]time.Duration
	fails map[event.ID]bool
}

func (s *script) attempt(ctx context.Context, c *event.Claim) event.Verdict {
	time.Sleep(s.after[c.Delivery])
	if s.fails[c.Delivery] {
		return refuse(ctx, c)
	}
	return event.Verdict{Ruling: event.Success}
}

// scene is deliveries that all begin at one moment, and end as they are told.
type scene struct {
	*script
	m     *memory
	began time.Time
	ids   []event.ID
}

func stage(t *testing.T, ends []time.Duration, fail ...int) *scene {
	m := newMemory(narrow("k", 200))
	m.writing = 5 * time.Millisecond
	s := &scene{script: &script{after: map[event.ID]time.Duration{}, fails: map[event.ID]bool{}}, m: m}
	s.ids = m.owe(1, len(ends), 5)
	for i, id := range s.ids {
		s.after[id] = ends[i]
		s.fails[id] = slices.Contains(fail, i)
	}
	st := start(t, m, s.attempt, func(o *relay.Options) { o.Poll = time.Hour })
	s.began = time.Now()
	st.Wake([]event.TargetID{1})
	return s
}

// crowdAt is one end, and so many that come while it is written: they are written together.
func crowdAt(at time.Duration) (ends []time.Duration) {
	ends = append(ends, at)
	for range 20 {
		ends = append(ends, at+time.Millisecond)
	}
	return ends
}

// written are the moments, from the beginning, at which records were written, from one on.
func (s *scene) written(from time.Duration) (at []time.Duration) {
	synctest.Wait()
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for _, w := range s.m.written {
		if since := w.Sub(s.began); since >= from {
			at = append(at, since)
		}
	}
	return at
}

const ms = time.Millisecond

func TestASuccessThatIsAloneIsWrittenAtOnce(t *testing.T) {
	for name, c := range map[string]struct{ ends []time.Duration }{
		"and nothing was before":             {[]time.Duration{30 * ms}},
		"though a crowd was before":          {append(crowdAt(0), 30*ms)},
		"though others are still under way":  {[]time.Duration{30 * ms, time.Second}},
		"after one, with others still there": {[]time.Duration{0, 30 * ms, time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, c.ends)
				time.Sleep(100 * ms)
				if at := s.written(20 * ms); len(at) != 1 || at[0] != 30*ms {
					t.Errorf("it ended after 30ms, and was written after %v", at)
				}
			})
		})
	}
}

func TestInACrowdASuccessWaitsForOthersForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, append(crowdAt(0), 30*ms, 33*ms, 35*ms, time.Second))
		time.Sleep(100 * ms)
		// The third comes while the first two are written.
		if at := s.written(20 * ms); len(at) != 2 || at[0] != 34*ms || at[1] != 39*ms {
			t.Errorf("written after %v, want 34ms and 39ms", at)
		}
	})
}

func TestAVerdictThatSomebodyWaitsForIsWrittenAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Duration // of the one that somebody waits for
		fail []int
	}{
		"alone":                    {30 * ms, []int{21, 22}},
		"behind one that can wait": {32 * ms, []int{22}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, append(crowdAt(0), 30*ms, c.at, time.Second), c.fail...)
				time.Sleep(100 * ms)
				if at := s.written(20 * ms); len(at) == 0 || at[0] != c.at {
					t.Errorf("it came after %v, and was written after %v", c.at, at)
				}
			})
		})
	}
}

// A success is the receiver's last word: what is left is ours, and its seat is another's.
func TestASuccessLeavesItsSeatBeforeItIsRecordedAndAFailureDoesNot(t *testing.T) {
	for name, fails := range map[string]bool{"successes": false, "failures": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const slots, most = 32, 4
				m, c := newMemory(narrow("k", most)), count(t, 10*ms)
				s := start(t, m, func(ctx context.Context, claim *event.Claim) event.Verdict {
					if v := c.attempt(ctx, claim); !fails || c.begun() <= 8 {
						return v
					}
					return refuse(ctx, claim)
				}, func(o *relay.Options) { o.Slots = slots })
				m.owe(1, 8, 5)
				s.Wake([]event.TargetID{1})
				time.Sleep(time.Second)
				m.mu.Lock()
				m.unwritable = true
				m.mu.Unlock()
				m.owe(1, 200, 5)
				s.Wake([]event.TargetID{1})
				time.Sleep(15 * time.Second)
				want := most
				if !fails {
					want += slots // unrecorded, besides those that have their seats
				}
				if n := c.begun() - 8; n != want {
					t.Errorf("%d attempts were begun that could not be recorded, want %d", n, want)
				}
				m.mu.Lock()
				m.unwritable = false
				m.mu.Unlock()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if n := m.recorded(); n < 208 || !fails && m.held() != 0 {
					t.Errorf("%d were recorded, %d are held, with the database back", n, m.held())
				}
			})
		})
	}
}

// P5: what is lost after its seat was given on is lost for itself.
func TestASuccessThatIsLostAfterItLeftItsSeatTakesNothingAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(narrow("k", 2)), count(t, 10*ms)
		m.writing = 20 * ms
		var stolen event.ID
		s := start(t, m, func(ctx context.Context, claim *event.Claim) event.Verdict {
			v := c.attempt(ctx, claim)
			if claim.Delivery == stolen {
				m.steal(stolen)
			}
			return v
		})
		stolen = m.owe(1, 50, 5)[20]
		s.Wake([]event.TargetID{1})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if m.endings() != 49 || m.status(stolen) != "" || c.peak(1) != 2 {
			t.Errorf("%d ended, the lost one is %q, at most %d at once", m.endings(), m.status(stolen), c.peak(1))
		}
		if s.log.count("finished an attempt after its claim was lost") != 1 {
			t.Errorf("the log is:\n%s", s.log.text.String())
		}
		id := m.owe(1, 1, 5)[0]
		s.Wake([]event.TargetID{1})
		time.Sleep(time.Second)
		if m.status(id) != event.Succeeded {
			t.Error("nothing is delivered after it")
		}
	})
}
