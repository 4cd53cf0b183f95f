package relay

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// recorder writes verdicts in batches: whatever was settled while the last batch was
// being written is the next one.
type recorder struct {
	ledger Ledger
	worker event.WorkerID
	log    *slog.Logger
	turned func([]ledger.Health)
	// underWay counts the attempts that are, those among them that wait to be recorded.
	underWay func() int
	in       chan *line
	crowded  bool // the last batch was a crowd
}

// line is one entry on its way into the ledger.
type line struct {
	ledger.Entry
	lapse   time.Time // when the claim's lease lapses, by our own clock
	patient bool      // nobody waits for it
	done    chan bool
}

// maxBatch bounds one statement. recordTimeout bounds one try. Where lines come in crowds,
// patient ones wait a moment for more of what is under way, as a small batch costs a round
// trip and a commit like a large one.
const (
	maxBatch      = 1000
	crowd         = 8
	enoughLines   = 250
	moment        = 4 * time.Millisecond
	recordTimeout = 5 * time.Second
	retryPause    = 100 * time.Millisecond // doubles up to
	maxRetryPause = time.Second
)

func newRecorder(l Ledger, worker event.WorkerID, log *slog.Logger, turned func([]ledger.Health), underWay func() int) *recorder {
	return &recorder{ledger: l, worker: worker, log: log, turned: turned, underWay: underWay, in: make(chan *line, maxBatch)}
}

// record writes one settlement and reports whether it stands. False: the claim was
// lost, or the database could not be reached before its lease lapsed.
func (r *recorder) record(ctx context.Context, e ledger.Entry, lapse time.Time, patient bool) bool {
	l := &line{Entry: e, lapse: lapse, patient: patient, done: make(chan bool, 1)}
	select {
	case r.in <- l:
	case <-ctx.Done():
		return false
	}
	select {
	case recorded := <-l.done:
		return recorded
	case <-ctx.Done():
		return false
	}
}

// run writes until the context ends.
func (r *recorder) run(ctx context.Context) {
	for {
		select {
		case l := <-r.in:
			r.write(ctx, r.collect(l))
		case <-ctx.Done():
			return
		}
	}
}

// collect is a line with those that are queued behind it, and, as long as all of them are
// patient and more is under way, with those that come within a moment.
func (r *recorder) collect(first *line) []*line {
	batch, patient := []*line{first}, first.patient && r.crowded
	defer func() { r.crowded = len(batch) >= crowd }()
	add := func(l *line) {
		batch = append(batch, l)
		patient = patient && l.patient
	}
	var late <-chan time.Time
	for len(batch) < maxBatch {
		select {
		case l := <-r.in:
			add(l)
			continue
		default:
		}
		if !patient || len(batch) >= enoughLines || r.underWay() <= len(batch) {
			return batch
		}
		if late == nil {
			timer := time.NewTimer(moment)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case l := <-r.in:
			add(l)
		case <-late:
			return batch
		}
	}
	return batch
}

// write records a batch. The requests were made already, so a database that is away
// is tried again for as long as the leases live: giving up would make them again.
func (r *recorder) write(ctx context.Context, batch []*line) {
	for pause := retryPause; ; pause = min(2*pause, maxRetryPause) {
		recorded, err := r.try(ctx, batch)
		if err == nil {
			for i, l := range batch {
				l.done <- recorded[i]
			}
			return
		}
		if ctx.Err() != nil || !pg.Unavailable(err) && !pg.Retryable(err) && !pg.LockTimeout(err) {
			r.log.ErrorContext(ctx, "verdicts could not be recorded; their deliveries return when their leases lapse", "verdicts", len(batch), "err", err)
			abandon(batch)
			return
		}
		if pause == retryPause {
			r.log.WarnContext(ctx, "verdicts could not be recorded yet; trying again while their leases live", "verdicts", len(batch), "err", err)
		}
		sleep(ctx, pause)
		if batch = live(batch); len(batch) == 0 {
			return
		}
	}
}

func (r *recorder) try(ctx context.Context, batch []*line) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	entries := make([]ledger.Entry, len(batch))
	for i, l := range batch {
		entries[i] = l.Entry
	}
	recorded, turns, err := r.ledger.Record(ctx, r.worker, entries)
	if len(turns) > 0 && r.turned != nil {
		r.turned(turns)
	}
	return recorded, err
}

// live drops the lines whose leases have lapsed: their rows are no longer ours.
func live(batch []*line) []*line {
	now := time.Now()
	kept := batch[:0]
	for _, l := range batch {
		if now.Before(l.lapse) {
			kept = append(kept, l)
		} else {
			l.done <- false
		}
	}
	return kept
}

func abandon(batch []*line) {
	for _, l := range batch {
		l.done <- false
	}
}
