package function

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Call is one attempt at a function, with a connection of its own.
type Call struct {
	caller *Caller
	claim  *event.Claim
	conn   *pgxpool.Conn // nil once it was given back
	tx     pgx.Tx        // open between Make and Acknowledge
	clean  bool          // nothing of the function's is left on the connection
	began  time.Time

	pid     int32     // of the server's process
	started time.Time // of the transaction, by the database's clock
}

// Make calls the function. It is total: whatever the function does is a verdict. Where
// that is a success, all that the function wrote waits for [Call.Acknowledge]; otherwise
// nothing of it is left.
func (c *Call) Make(ctx context.Context) event.Verdict {
	c.began, c.clean = time.Now(), false
	to := c.claim.To.Receiver
	ctx, cancel := context.WithTimeout(ctx, to.Timeout)
	defer cancel()
	argument, err := c.run(ctx, to)
	if err == nil {
		return c.finish(event.Verdict{Ruling: event.Success})
	}
	v := c.finish(judge(ctx, err, to, bound(to.Timeout), time.Since(c.began), time.Now()))
	if c.undo(argument, err) {
		v.Ruling, v.Class, v.Reason = event.Permanent, event.ClassDecode, "jsonb does not hold the event: "+v.Reason
	}
	return v
}

func (c *Call) finish(v event.Verdict) event.Verdict {
	v.StartedAt, v.Duration = c.began, time.Since(c.began)
	return v
}

// run is the transaction up to where the function has returned and owes nothing to the
// commit. The event comes back as it was passed.
func (c *Call) run(ctx context.Context, to *event.Receiver) (argument []byte, err error) {
	if c.tx, err = c.conn.Begin(ctx); err != nil {
		return nil, err
	}
	return c.invoke(ctx, to)
}

// invoke calls the function in the transaction that is open.
func (c *Call) invoke(ctx context.Context, to *event.Receiver) (argument []byte, err error) {
	actor, metadata, err := c.bound(ctx, to)
	if err != nil {
		return nil, err
	}
	if actor, metadata, err = c.unstored(actor, metadata); err != nil {
		return nil, err
	}
	argument, about, err := arguments(c.claim, actor, metadata)
	if err != nil {
		return nil, err
	}
	if _, err := c.tx.Exec(ctx, statement(to.Function), argument, about); err != nil {
		return argument, err
	}
	_, err = c.tx.Exec(ctx, due)
	return argument, err
}

// bound holds the transaction to its limits and its role, and marks where the function
// begins.
func (c *Call) bound(ctx context.Context, to *event.Receiver) (actor, metadata []byte, err error) {
	limit := bound(to.Timeout)
	var b pgx.Batch
	b.Queue(sqlBound, pg.Args{
		"statement_timeout": milliseconds(limit), "lock_timeout": milliseconds(limit / 2), "idle_timeout": milliseconds(idleInAttempt),
		"role": to.Role, "event": [16]byte(c.claim.Event.ID),
	})
	b.Queue(mark)
	results := c.tx.SendBatch(ctx, &b)
	defer results.Close()
	var set [4]string
	var role *string
	if err := results.QueryRow().Scan(&c.pid, &c.started, &actor, &metadata, &set[0], &set[1], &set[2], &set[3], &role); err != nil {
		return nil, nil, err
	}
	return actor, metadata, results.Close()
}

// undo takes back what a function that failed has done. It reports whether the function
// was never reached, as the event is nothing that jsonb holds.
func (c *Call) undo(argument []byte, failed error) (undecodable bool) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	if !c.conn.Conn().IsClosed() && c.pid != 0 {
		_, err := c.tx.Exec(ctx, unmark+"; "+nothing)
		// A function can fail with the same SQLSTATEs as its arguments do.
		if err == nil && argument != nil && pg.BadData(failed) {
			_, err := c.tx.Exec(ctx, sqlFits, pg.Args{"argument": argument})
			undecodable = pg.BadData(err)
		}
	}
	running := c.conn.Conn().IsClosed() && c.pid != 0 && pg.Code(failed) == ""
	c.drop(ctx)
	if running {
		c.caller.terminate(c.pid, c.started)
	}
	return undecodable
}

// drop ends the transaction, and its connection too. The rollback is for a pooler, which
// goes on with the server's.
func (c *Call) drop(ctx context.Context) {
	if c.tx != nil && !c.conn.Conn().IsClosed() {
		c.tx.Rollback(ctx)
	}
	c.conn.Conn().Close(ctx)
	c.conn.Release()
	c.conn, c.tx = nil, nil
}

// Acknowledge commits what the function wrote together with the record of its success,
// under the fence of its claim. False: the claim was lost and nothing stands, or whether
// the commit took place is not known; then the lease tells. Where the transaction is known
// to have failed, what came instead of the success is answered, to be recorded by itself.
func (c *Call) Acknowledge(ctx context.Context, worker event.WorkerID, e ledger.Entry) (recorded bool, instead *event.Verdict) {
	ctx, cancel := context.WithTimeout(ctx, acknowledgeTime)
	defer cancel()
	recorded, kept, err := c.record(ctx, worker, e)
	if err != nil {
		return false, c.failed(ctx, err)
	}
	if !recorded {
		return false, nil
	}
	if err := c.tx.Commit(ctx); err != nil {
		if !undone(err) {
			c.caller.log.ErrorContext(ctx, "whether a function's writes and their acknowledgement were committed is not known; where they were not, the delivery returns when its lease lapses",
				"receiver", c.claim.To.Receiver.Key, "delivery", c.claim.Delivery.Text(event.DeliveryPrefix), "err", err)
			return false, nil
		}
		return false, c.failed(ctx, err)
	}
	c.tx, c.clean = nil, !kept
	return true, nil
}

// record writes the success, with our own rights and settings. kept says that the function
// left something on the connection.
func (c *Call) record(ctx context.Context, worker event.WorkerID, e ledger.Entry) (recorded, kept bool, err error) {
	if kept, err = c.tidy(ctx); err != nil {
		return false, false, err
	}
	recorded, err = ledger.RecordIn(ctx, c.tx, worker, e)
	return recorded, kept, err
}

// tidy gives the transaction back our own rights and settings. kept says that the function
// left something on the connection.
func (c *Call) tidy(ctx context.Context) (kept bool, err error) {
	if _, err := c.tx.Exec(ctx, tidy); err != nil {
		return false, err
	}
	var prepared int
	var unlocked string
	err = c.tx.QueryRow(ctx, sqlLeftovers).Scan(&unlocked, &prepared)
	return prepared > 0, err
}

// undone reports whether an error of a commit says that it did not take place. A session
// that is ended while it commits may have committed.
func undone(err error) bool {
	var raised *pgconn.PgError
	if errors.As(err, &raised) {
		return raised.SeverityUnlocalized == "ERROR"
	}
	return errors.Is(err, pgx.ErrTxCommitRollback) || pgconn.SafeToRetry(err)
}

// failed is the verdict where the acknowledgement failed and took the function's writes
// with it.
func (c *Call) failed(ctx context.Context, err error) *event.Verdict {
	v := event.Verdict{Ruling: event.Failure, Class: event.ClassConnect, Reason: "the connection to the database was lost before the function's writes were committed"}
	var raised *pgconn.PgError
	if errors.As(err, &raised) {
		v = ordinary(raised, "the function returned, but its acknowledgement failed: "+plain(raised.Message))
	}
	c.caller.log.WarnContext(ctx, "a function's success could not be acknowledged; what it wrote is undone", "receiver", c.claim.To.Receiver.Key, "class", v.Class)
	v = c.finish(v)
	c.End() // or the verdict would wait for the row that this transaction has written
	return &v
}

// End gives the connection back. What was not acknowledged is undone.
func (c *Call) End() {
	switch {
	case c.conn == nil:
	case c.clean:
		c.conn.Release()
	default:
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
		defer cancel()
		if c.tx != nil && !c.conn.Conn().IsClosed() {
			c.tx.Exec(ctx, unmark+"; "+nothing)
		}
		c.drop(ctx)
	}
}
