package fire

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// QuotaError says that as much is owed for a tenant's events as may be.
type QuotaError struct {
	Most int
	Wait time.Duration // until it is counted anew
}

// Error says so.
func (e QuotaError) Error() string {
	return fmt.Sprintf("%d deliveries or more are owed for events of this tenant, and %d may be", e.Most, e.Most)
}

// Backlogs counts what is owed, by the tenant of the event.
type Backlogs func(ctx context.Context) (map[string]int, error)

// quota bounds what is owed for the events of each tenant. What is owed is counted now
// and then, and what this process adds meanwhile is added to that; so it is exact to what
// other processes fire, and workers settle, between two counts. The zero most bounds
// nothing.
type quota struct {
	most  int
	count Backlogs
	log   *slog.Logger

	mu       sync.Mutex
	owed     map[string]int
	added    map[string]int // since the count under way began
	at       time.Time
	took     time.Duration
	counting bool
}

// Times of the count: never older than quotaAge, unless counting takes a good part of
// that.
const (
	quotaAge     = 2 * time.Second
	quotaShare   = 10 // of the time, a tenth may go into counting
	quotaTimeout = 30 * time.Second
)

// full is why nothing more may be owed for a tenant, or nil.
func (q *quota) full(tenant string) error {
	if q.most == 0 || tenant == "" {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	age := max(quotaAge, quotaShare*q.took)
	if !q.counting && time.Since(q.at) > age {
		q.counting, q.added = true, map[string]int{}
		go q.recount()
	}
	if q.owed[tenant] < q.most {
		return nil
	}
	return QuotaError{q.most, age}
}

// add tells of what has become owed.
func (q *quota) add(tenant string, n int) {
	if q.most == 0 || tenant == "" || n == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.owed[tenant] += n
	q.added[tenant] += n
}

// recount counts anew. Where that fails the last count stands.
func (q *quota) recount() {
	ctx, cancel := context.WithTimeout(context.Background(), quotaTimeout)
	defer cancel()
	began := time.Now()
	owed, err := q.count(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counting, q.at, q.took = false, time.Now(), time.Since(began)
	if err != nil {
		q.log.Warn("what is owed to tenants could not be counted; EVENTSVC_TENANT_QUOTA goes by an older count", "err", err)
		return
	}
	// What was added while it was counted may be in the count as well: rather too many
	// for a moment than too few.
	for tenant, n := range q.added {
		owed[tenant] += n
	}
	q.owed = owed
}
