package app

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/api"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// gauge knows whether the process can do its work.
type gauge struct {
	pool     *pgxpool.Pool
	relay    *relay.Relay // nil where none runs
	stopping atomic.Bool

	mu      sync.Mutex
	asked   time.Time
	answers []api.Check
}

const (
	gaugeFresh   = time.Second
	gaugeTimeout = 500 * time.Millisecond
	// stalled is after how long a relay that does not turn is taken for stuck: longer
	// than its longest back-off and a claim.
	stalled = 40 * time.Second
)

// checks answers for readiness. The database is asked at most once a second, however
// often we are.
func (g *gauge) checks(ctx context.Context) []api.Check {
	checks := append(g.database(ctx), api.Check{Name: "serving", OK: !g.stopping.Load()})
	if g.relay != nil {
		checks = append(checks, api.Check{Name: "relay", OK: g.stopping.Load() || time.Since(g.relay.Beat()) < stalled})
	}
	return checks
}

func (g *gauge) database(ctx context.Context) []api.Check {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.asked) < gaugeFresh {
		return append([]api.Check(nil), g.answers...)
	}
	ctx, cancel := context.WithTimeout(ctx, gaugeTimeout)
	defer cancel()
	status, err := pg.Status(ctx, g.pool)
	g.asked = time.Now()
	g.answers = []api.Check{{Name: "database", OK: err == nil}, {Name: "schema", OK: err == nil && status.Current()}}
	return append([]api.Check(nil), g.answers...)
}
