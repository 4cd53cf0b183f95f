package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Figures are how much there is of something. Owed is what is due, claimed or not;
// scheduled is what is not due yet; dead is neither.
type Figures struct {
	Owed          int64
	Scheduled     int64
	Claimed       int64
	Lapsed        int64 // claimed, and the lease is over
	Dead          int64
	OldestSeconds float64 // since the oldest that is owed arrived, or was due
}

func (f *Figures) add(g *Figures) {
	f.Owed += g.Owed
	f.Scheduled += g.Scheduled
	f.Claimed += g.Claimed
	f.Lapsed += g.Lapsed
	f.Dead += g.Dead
	f.OldestSeconds = max(f.OldestSeconds, g.OldestSeconds)
}

// ReceiverStatus is what there is of one receiver.
type ReceiverStatus struct {
	Figures
	Receiver string
	Lane     string
	Paused   bool
	Gone     bool // it was deleted
}

// LaneStatus is what there is in one lane, and how many live relays serve it.
type LaneStatus struct {
	Figures
	Lane   string
	Paused bool
	Relays int
}

// Unserved reports whether something is owed in a lane that no live relay serves.
func (l *LaneStatus) Unserved() bool { return l.Owed+l.Scheduled > 0 && l.Relays == 0 }

// WorkerStatus is a relay that reported lately. No lanes: it serves all of them.
type WorkerStatus struct {
	Worker string
	Lanes  []string
	SeenAt time.Time
}

// QuietReceiver is one that has acknowledged nothing for long; nil: never.
type QuietReceiver struct {
	Receiver    string
	LastSuccess *time.Time
}

// Status is how things stand.
type Status struct {
	Figures
	Receivers []ReceiverStatus // with something owed or dead, the worst first
	Lanes     []LaneStatus     // all, by name
	Relays    []WorkerStatus
	AsOf      time.Time
}

// alive is for how long after its last report a relay is taken to live: it reports
// every few seconds.
const alive = 20 * time.Second

// Status counts everything that is owed.
func (l *Ledger) Status(ctx context.Context) (Status, error) {
	s := Status{AsOf: time.Now()}
	var b pgx.Batch
	b.Queue(sqlStatusOwed)
	b.Queue(sqlStatusLanes)
	b.Queue(sqlStatusWorkers, pg.Args{"within": alive})
	results := l.pool.SendBatch(ctx, &b)
	defer results.Close()
	var err error
	if s.Receivers, err = collect(results, scanReceiverStatus); err != nil {
		return s, err
	}
	if s.Lanes, err = collect(results, func(row pgx.CollectableRow) (l LaneStatus, err error) {
		err = row.Scan(&l.Lane, &l.Paused)
		return l, err
	}); err != nil {
		return s, err
	}
	if s.Relays, err = collect(results, func(row pgx.CollectableRow) (w WorkerStatus, err error) {
		err = row.Scan(&w.Worker, &w.Lanes, &w.SeenAt)
		return w, err
	}); err != nil {
		return s, err
	}
	s.sum()
	return s, nil
}

func scanReceiverStatus(row pgx.CollectableRow) (r ReceiverStatus, err error) {
	err = row.Scan(&r.Receiver, &r.Lane, &r.Paused, &r.Gone, &r.Owed, &r.Scheduled, &r.Claimed, &r.Lapsed, &r.Dead, &r.OldestSeconds)
	return r, err
}

func collect[T any](results pgx.BatchResults, scan pgx.RowToFunc[T]) ([]T, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, fmt.Errorf("read the status: %w", err)
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read the status: %w", err)
	}
	return list, nil
}

// sum adds the receivers up, over all and by lane. What is left of a receiver that is
// gone belongs to the default lane.
func (s *Status) sum() {
	for i := range s.Receivers {
		r := &s.Receivers[i]
		s.Figures.add(&r.Figures)
		lane := r.Lane
		if r.Gone {
			lane = event.DefaultLane
		}
		for j := range s.Lanes {
			if s.Lanes[j].Lane == lane {
				s.Lanes[j].Figures.add(&r.Figures)
			}
		}
	}
	for j := range s.Lanes {
		for _, w := range s.Relays {
			if w.Lanes == nil || slices.Contains(w.Lanes, s.Lanes[j].Lane) {
				s.Lanes[j].Relays++
			}
		}
	}
}

// Quiet is up to limit receivers that have acknowledged nothing within a time, the
// quietest first. One that was never told anything is among them.
func (l *Ledger) Quiet(ctx context.Context, within time.Duration, limit int) ([]QuietReceiver, error) {
	rows, err := l.pool.Query(ctx, sqlQuietReceivers, pg.Args{"within": within, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("look for quiet receivers: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[QuietReceiver])
	if err != nil {
		return nil, fmt.Errorf("look for quiet receivers: %w", err)
	}
	return list, nil
}

// Backlogs is how many deliveries are owed for events of each tenant.
func (l *Ledger) Backlogs(ctx context.Context) (map[string]int, error) {
	rows, err := l.pool.Query(ctx, sqlTenantBacklogs)
	if err != nil {
		return nil, fmt.Errorf("count what is owed by tenant: %w", err)
	}
	owed := map[string]int{}
	var tenant string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&tenant, &n}, func() error { owed[tenant] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count what is owed by tenant: %w", err)
	}
	return owed, nil
}

// Watch is the status, asked for no more often than it is worth: counting a backlog of
// millions takes a while, however many ask.
type Watch struct {
	ledger *Ledger
	mu     sync.Mutex
	last   Status
	took   time.Duration
}

// NewWatch watches a ledger.
func NewWatch(l *Ledger) *Watch { return &Watch{ledger: l} }

// Status is how things stood no longer ago than maxAge, or than ten times what counting
// them took, whichever is longer.
func (w *Watch) Status(ctx context.Context, maxAge time.Duration) (Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last.AsOf.IsZero() && time.Since(w.last.AsOf) < max(maxAge, 10*w.took) {
		return w.last, nil
	}
	began := time.Now()
	s, err := w.ledger.Status(ctx)
	if err != nil {
		return Status{}, err
	}
	w.last, w.took = s, time.Since(began)
	return s, nil
}
