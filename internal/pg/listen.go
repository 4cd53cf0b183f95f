package pg

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	listenTimeout = 5 * time.Second // of each statement on the listener's connection
	hearTimeout   = 5 * time.Second // for our own nonce to come back
	testEvery     = time.Minute
)

// Deaf reports whether only polling finds other processes' work just now: Listen has
// no connection, or the last nonce that it sent itself did not come back.
func (b *Bell) Deaf() bool { return !b.hears.Load() }

// Listen calls rung for every ring of another process until the context ends. It has
// a connection of its own, which must not go through a transaction pooler, never opens
// a transaction, and reconnects after 1, 2, 4, 8, 15, 15 ... seconds. After each
// connect it calls connected, since rings may have been missed.
//
// Then and every minute it sends itself a nonce by the way that rings go. Where that
// does not come back although the connection lives, as through a transaction pooler,
// it warns once, until one does.
func (b *Bell) Listen(ctx context.Context, url string, connected, rung func()) {
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, 15*time.Second) {
		wasConnected, err := b.listen(ctx, url, connected, rung)
		b.hears.Store(false)
		if ctx.Err() != nil {
			return
		}
		if wasConnected {
			wait = time.Second
		}
		b.log.WarnContext(ctx, "no wake-ups from other processes for now; polling finds their work", "again in", wait, "err", err)
		pause(ctx, wait)
	}
}

func (b *Bell) listen(ctx context.Context, url string, connected, rung func()) (wasConnected bool, err error) {
	conn, err := connectListener(ctx, url)
	if err != nil {
		return false, err
	}
	defer closeListener(ctx, conn)
	connected()
	ear := ear{Bell: b, conn: conn}
	for {
		if err := ear.test(ctx); err != nil {
			return true, err
		}
		for testAt := time.Now().Add(b.testEvery); time.Now().Before(testAt); {
			if err := ear.hear(ctx, testAt, rung); err != nil {
				return true, err
			}
		}
	}
}

func connectListener(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the database URL cannot be read: %s", withoutURL(err))
	}
	dress(config, "listen")
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	if _, err := conn.Exec(limited, `LISTEN `+bellChannel); err != nil {
		closeListener(ctx, conn)
		return nil, err
	}
	return conn, nil
}

func closeListener(ctx context.Context, conn *pgx.Conn) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), listenTimeout)
	defer cancel()
	conn.Close(limited)
}

// ear is the listener on one connection.
type ear struct {
	*Bell
	conn  *pgx.Conn
	nonce string    // under way to ourselves, or ""
	until time.Time // when it must have come back
	tests uint64
}

// test sends a nonce. Where it cannot be sent nothing is learnt of the connection,
// which is asked itself instead.
func (e *ear) test(ctx context.Context) error {
	e.tests++
	nonce := e.self + nonceMark + strconv.FormatUint(e.tests, 10)
	if e.notify(ctx, nonce) != nil {
		return e.ping(ctx)
	}
	e.nonce, e.until = nonce, time.Now().Add(min(hearTimeout, e.testEvery/2))
	return nil
}

// nonceMark parts who sent a nonce from its number. A ring has none.
const nonceMark = "?"

// hear waits for one notification, for the nonce's time to be over, or until then.
func (e *ear) hear(ctx context.Context, then time.Time, rung func()) error {
	if e.nonce != "" && e.until.Before(then) {
		then = e.until
	}
	waitCtx, cancel := context.WithDeadline(ctx, then)
	n, err := e.conn.WaitForNotification(waitCtx)
	cancel()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && n.Payload == e.nonce:
		e.heard(ctx)
	case err == nil && n.Payload != e.self && !strings.Contains(n.Payload, nonceMark):
		rung()
	case err == nil:
	case waitCtx.Err() == nil || e.conn.IsClosed():
		return err
	case e.nonce != "" && !time.Now().Before(e.until):
		return e.missed(ctx)
	}
	return nil
}

func (e *ear) heard(ctx context.Context) {
	e.nonce = ""
	e.hears.Store(true)
	if e.warned {
		e.warned = false
		e.log.InfoContext(ctx, "wake-ups from other processes are heard again")
	}
}

// missed tells a dead connection from a deaf one.
func (e *ear) missed(ctx context.Context) error {
	e.nonce = ""
	if err := e.ping(ctx); err != nil {
		return err
	}
	e.hears.Store(false)
	if !e.warned {
		e.warned = true
		e.log.WarnContext(ctx, "LISTEN is deaf: what this process notified did not come back to it; polling finds the work of others; "+
			"where DATABASE_URL goes through a transaction pooler, set EVENTSVC_LISTEN_DATABASE_URL to the server itself, or EVENTSVC_WAKE=poll")
	}
	return nil
}

func (e *ear) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	return e.conn.Ping(ctx)
}
