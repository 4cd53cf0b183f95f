package pg

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
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
}

const (
	bellChannel  = "eventsvc_wake"
	bellInterval = 100 * time.Millisecond // at most one NOTIFY in this time
	bellTimeout  = 2 * time.Second
	pingEvery    = 30 * time.Second
	pingTimeout  = 5 * time.Second
)

// NewBell makes a bell over the pool; Run must run for its rings to be heard.
func NewBell(pool *pgxpool.Pool, log *slog.Logger) *Bell {
	var random [8]byte
	rand.Read(random[:])
	return &Bell{pool: pool, log: log, self: hex.EncodeToString(random[:]), rung: make(chan struct{}, 1)}
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
	if err := b.notify(ctx); err != nil {
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
		if err := b.notify(ctx); err != nil && ctx.Err() == nil {
			b.log.DebugContext(ctx, "other processes could not be notified; they will find the work by polling", "err", err)
		}
		pause(ctx, bellInterval)
	}
}

func (b *Bell) notify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bellTimeout)
	defer cancel()
	_, err := b.pool.Exec(ctx, `SELECT pg_notify($1, $2)`, bellChannel, b.self)
	return err
}

// Listen calls wake for every ring of another process until the context ends. It has
// a connection of its own, which must not go through a transaction pooler, never opens
// a transaction, and reconnects after 1, 2, 4, 8, 15, 15 ... seconds. After each
// connect it calls wake once, for what it may have missed.
func (b *Bell) Listen(ctx context.Context, url string, wake func()) {
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, 15*time.Second) {
		heard, err := b.listen(ctx, url, wake)
		if ctx.Err() != nil {
			return
		}
		if heard {
			wait = time.Second
		}
		b.log.WarnContext(ctx, "no wake-ups from other processes for now; polling finds their work", "again in", wait, "err", err)
		pause(ctx, wait)
	}
}

func (b *Bell) listen(ctx context.Context, url string, wake func()) (connected bool, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return false, fmt.Errorf("the database URL cannot be read: %s", withoutURL(err))
	}
	config.ConnectTimeout = orDefault(config.ConnectTimeout, connectTimeout)
	config.RuntimeParams["application_name"] = "eventsvc/listen"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `LISTEN `+bellChannel); err != nil {
		return false, err
	}
	wake()
	for {
		waitCtx, cancel := context.WithTimeout(ctx, pingEvery)
		n, err := conn.WaitForNotification(waitCtx)
		cancel()
		switch {
		case ctx.Err() != nil:
			return true, ctx.Err()
		case err == nil && n.Payload != b.self:
			wake()
		case err == nil:
		case waitCtx.Err() != nil && !conn.IsClosed():
			// Nothing was heard for long: make sure that somebody is there to be heard.
			if err := ping(ctx, conn); err != nil {
				return true, err
			}
		default:
			return true, err
		}
	}
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
