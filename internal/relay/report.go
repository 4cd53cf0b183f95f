package relay

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// reportEvery is how often a relay says that it lives, which lanes it serves, and which
// targets have acknowledged something. A process that is killed takes its last report's
// worth of that with it, and of nothing else.
const reportEvery = 5 * time.Second

// report says so until the context ends, and then once more that it serves no lane.
func (r *Relay) report(ctx context.Context) {
	for ctx.Err() == nil {
		r.reportOnce(ctx, recordTimeout, r.Lanes.Served)
		sleep(ctx, reportEvery)
	}
	r.reportOnce(context.WithoutCancel(ctx), lastWord, []string{})
}

// lastWord is how long the end of the process waits for its last report: a database that
// is away is not worth more.
const lastWord = time.Second

func (r *Relay) reportOnce(ctx context.Context, within time.Duration, lanes []string) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	seen := r.seen.take()
	if err := r.Ledger.Report(ctx, r.Worker, lanes, ages(seen)); err != nil {
		r.seen.giveBack(seen)
		r.Log.DebugContext(ctx, "this worker's report could not be written; trying again later", "err", err)
	}
}

// successes is when targets last acknowledged something to this process.
type successes struct {
	mu sync.Mutex
	at map[event.TargetID]time.Time
}

func newSuccesses() *successes { return &successes{at: map[event.TargetID]time.Time{}} }

func (s *successes) note(id event.TargetID) {
	s.mu.Lock()
	s.at[id] = time.Now()
	s.mu.Unlock()
}

// take is what was noted since it was last taken.
func (s *successes) take() map[event.TargetID]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.at
	s.at = map[event.TargetID]time.Time{}
	return taken
}

// giveBack puts back what could not be reported, unless something newer was noted.
func (s *successes) giveBack(taken map[event.TargetID]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(taken, s.at)
	s.at = taken
}

// ages are moments as how long ago they were: the tables hold the database's times.
func ages(at map[event.TargetID]time.Time) map[event.TargetID]time.Duration {
	ago := make(map[event.TargetID]time.Duration, len(at))
	for id, t := range at {
		ago[id] = max(time.Since(t), 0)
	}
	return ago
}
