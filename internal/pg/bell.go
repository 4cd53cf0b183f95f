package pg

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Bell wakes other processes. A ring is a NOTIFY, sent after the commit it tells of,
// never inside it: a transaction that notifies takes a lock over the whole database
// when it commits, and fires would take turns. Rings are best effort, since polling
// finds what a lost one told of.
type Bell struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	self string
	rung chan struct{}

	hears     atomic.Bool // see Deaf
	warned    bool        // the listener's own: that it is deaf
	testEvery time.Duration
}

const (
	bellChannel  = "eventsvc_wake"
	bellInterval = 100 * time.Millisecond // at most one NOTIFY in this time
	bellTimeout  = 2 * time.Second
)

// NewBell makes a bell over the pool; Run must run for its rings to be heard.
func NewBell(pool *pgxpool.Pool, log *slog.Logger) *Bell {
	var random [8]byte
	rand.Read(random[:])
	return &Bell{pool: pool, log: log, self: hex.EncodeToString(random[:]), rung: make(chan struct{}, 1), testEvery: testEvery}
}

// Ring asks for a wake-up of the other processes. It never blocks.
func (b *Bell) Ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

// RingNow asks for it and waits until it is sent, or not. It is for processes that end.
func (b *Bell) RingNow(ctx context.Context) {
	if err := b.notify(ctx, b.self); err != nil {
		b.log.DebugContext(ctx, "other processes could not be notified; they will find the work by polling", "err", err)
	}
}

// Run sends rings until the context ends, at most one an interval: a thousand fires
// are one notification.
func (b *Bell) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.rung:
		}
		if err := b.notify(ctx, b.self); err != nil && ctx.Err() == nil {
			b.log.DebugContext(ctx, "other processes could not be notified; they will find the work by polling", "err", err)
		}
		pause(ctx, bellInterval)
	}
}

func (b *Bell) notify(ctx context.Context, payload string) error {
	ctx, cancel := context.WithTimeout(ctx, bellTimeout)
	defer cancel()
	_, err := b.pool.Exec(ctx, `SELECT pg_notify($1, $2)`, bellChannel, payload)
	return err
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
