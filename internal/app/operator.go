package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// Operator is what a command needs that works on the database itself: the same rooms
// that the API stands on, without a process around them.
type Operator struct {
	Ledger   *ledger.Ledger
	Registry *registry.Registry
	Desk     *fire.Desk
	Keys     *access.Keys
	Prune    fire.Prune
	Keep     time.Duration
	pool     *pgxpool.Pool
	bell     *pg.Bell
}

// NewOperator opens the configured database. Close must be called.
func NewOperator(ctx context.Context, c Config, log *slog.Logger) (*Operator, error) {
	pool, err := OpenReady(ctx, c)
	if err != nil {
		return nil, err
	}
	status, err := pg.Status(ctx, pool)
	if err == nil && !status.Current() {
		err = ConfigError{"DATABASE_URL leads to a database that this program cannot use: " + status.Advice()}
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	o := &Operator{pool: pool, bell: pg.NewBell(pool, log), Ledger: ledger.New(pool), Keys: access.NewKeys(pool), Keep: time.Duration(c.Retention)}
	o.Prune = fire.Prune{Keep: o.Keep, Rows: c.PruneRows}
	if err := o.furnish(ctx, c, log); err != nil {
		pool.Close()
		return nil, err
	}
	return o, nil
}

func (o *Operator) furnish(ctx context.Context, c Config, log *slog.Logger) error {
	keys, err := c.sealKeys()
	if err != nil {
		return err
	}
	sealer, err := registry.NewSealer(keys...)
	if err != nil {
		return err
	}
	o.Registry = registry.New(o.pool, c.registry(sealer, c.policy()))
	book := o.Registry.NewBook(slog.New(slog.DiscardHandler))
	if err := book.Read(ctx); err != nil {
		return err
	}
	o.Desk = fire.NewDesk(fire.Options{Pool: o.pool, Book: book, Sealer: sealer, Log: log})
	return nil
}

// Reseal seals every stored secret with the newest key, and answers how many were not.
func (o *Operator) Reseal(ctx context.Context) (int, error) {
	n, err := o.Registry.Reseal(ctx)
	if err != nil {
		return 0, err
	}
	checks, err := o.Desk.Reseal(ctx)
	return n + checks, err
}

// Wake tells the relays that something is owed. They would find it by themselves a
// little later.
func (o *Operator) Wake(ctx context.Context) { o.bell.RingNow(ctx) }

// Close gives the connections back.
func (o *Operator) Close() { o.pool.Close() }

// Deliver tries one delivery now, in this process, and says whether it was recorded.
func Deliver(ctx context.Context, p *Process, id event.ID) (bool, error) {
	tel, err := newTelemetry(ctx, p.Version, p.Log)
	if err != nil {
		return false, err
	}
	defer p.flush(tel)
	pools, err := p.openPools(ctx, tel)
	if err != nil {
		return false, err
	}
	defer pools.close()
	if err := p.checkSchema(ctx, pools.api); err != nil {
		return false, err
	}
	h, err := p.build(ctx, pools, tel)
	if err != nil {
		return false, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ran := make(chan struct{})
	go func() { h.runner.Run(running); close(ran) }()
	defer func() { stop(); <-ran }()
	ended, err := h.runner.Deliver(ctx, id)
	if err != nil {
		return false, fmt.Errorf("deliver %s: %w", id.Text(event.DeliveryPrefix), err)
	}
	return ended, nil
}
