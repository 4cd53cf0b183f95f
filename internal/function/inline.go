package function

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Inline is a transaction of somebody else's writes in which functions are called too: what
// they write is committed with it or not at all.
type Inline struct {
	call Call
	kept bool // a function left something on the connection
	used bool // a function was called
}

// Open begins a transaction as soon as there is a connection for it. Its error is that
// there was none until the context ended. It must be ended.
func (c *Caller) Open(ctx context.Context) (*Inline, error) {
	conn, err := c.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for a connection to call functions on: %w", err)
	}
	i := &Inline{call: Call{caller: c, conn: conn}}
	if i.call.tx, err = conn.Begin(ctx); err != nil {
		i.End()
		return nil, fmt.Errorf("begin to call functions: %w", err)
	}
	return i, nil
}

// Tx is the transaction. After a call it has our own rights, whatever the function has set,
// and looks for names in pg_catalog alone.
func (i *Inline) Tx() pgx.Tx { return i.call.tx }

// Check says why no function can be called with an event, or nil.
func (i *Inline) Check(c *event.Claim) error { return i.call.caller.Check(c) }

// Attempt calls the claim's function. Whatever is not a success has ended the transaction
// and its connection. The reason of a failure is what a producer may be told: the message
// that was raised on purpose, and of errors of the database no more than their class.
func (i *Inline) Attempt(ctx context.Context, claim *event.Claim) event.Verdict {
	c, to := &i.call, claim.To.Receiver
	c.claim, c.began = claim, time.Now()
	ctx, cancel := context.WithTimeout(ctx, to.Timeout)
	defer cancel()
	argument, err := i.invoke(ctx, to)
	if err == nil {
		var kept bool
		kept, err = c.tidy(ctx)
		i.kept = i.kept || kept
	}
	if err == nil {
		return c.finish(event.Verdict{Ruling: event.Success})
	}
	v := c.finish(judge(ctx, err, to, bound(to.Timeout), time.Since(c.began), time.Now()))
	v.Ruling = event.Failure // there is no later for what is not stored
	if c.undo(argument, err) {
		v.Class = event.ClassDecode
	}
	c.caller.log.InfoContext(ctx, "a function that was called in a fire's transaction failed; nothing of either is left", "receiver", to.Key, "class", v.Class, "why", v.Reason)
	if v.Reason = told(&v, err); unheard(err) {
		v.Class = event.ClassConnect
	}
	return v
}

// unheard reports whether a call failed for the database's sake, so that the function has
// not had its say: the session was ended for a shutdown, or for another's sake.
func unheard(err error) bool {
	code := pg.Code(err)
	return code != "" && code != "57014" && (pg.Unavailable(err) || pg.Retryable(err)) // a limit of its own is the function's
}

// invoke is a call's, in a transaction that is to each function as if it had just begun.
func (i *Inline) invoke(ctx context.Context, to *event.Receiver) (argument []byte, err error) {
	if i.used {
		if _, err := i.call.tx.Exec(ctx, undue); err != nil {
			return nil, err
		}
	}
	i.used = true
	return i.call.invoke(ctx, to)
}

// told is what a producer may know of why.
func told(v *event.Verdict, err error) string {
	var raised *pgconn.PgError
	switch {
	case v.Class == event.ClassTimeout:
		return "it did not return within its timeout"
	case errors.As(err, &raised) && raised.Routine == "exec_stmt_raise":
		return plain(raised.Message)
	}
	return fmt.Sprintf("it failed (%s)", v.Class)
}

// Commit commits everything. Where it fails, whether it took place may not be known.
func (i *Inline) Commit(ctx context.Context) error {
	if err := i.call.tx.Commit(ctx); err != nil {
		return err
	}
	i.call.tx, i.call.clean = nil, !i.kept
	return nil
}

// End gives the connection back. What was not committed is undone.
func (i *Inline) End() { i.call.End() }

// unstored adds what an event has of its own, which no row has yet: a claim's has none.
func (c *Call) unstored(actor, metadata []byte) (_, _ []byte, err error) {
	e := &c.claim.Event
	if e.Actor != nil {
		if actor, err = json.Marshal(e.Actor); err != nil {
			return nil, nil, fmt.Errorf("encode the actor: %w", err)
		}
	}
	if len(e.Metadata) > 0 {
		if metadata, err = json.Marshal(e.Metadata); err != nil {
			return nil, nil, fmt.Errorf("encode the metadata: %w", err)
		}
	}
	if e.RecordedAt.IsZero() {
		e.RecordedAt = c.started // as its row will say
	}
	return actor, metadata, nil
}
