package fire

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// ErrQuota says that as much is owed for a tenant's events as may be.
var ErrQuota = errors.New("too much is owed for events of this tenant")

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

// full reports whether nothing more may be owed for a tenant.
func (q *quota) full(tenant string) bool {
	if q.most == 0 || tenant == "" {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.counting && time.Since(q.at) > max(quotaAge, quotaShare*q.took) {
		q.counting, q.added = true, map[string]int{}
		go q.recount()
	}
	return q.owed[tenant] >= q.most
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
