package access

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Change is something that somebody changed. Before and After are encoded as JSON and
// must hold no secret; nil is nothing.
type Change struct {
	Action string // the operation, such as put-receiver
	Object string // what it was done to
	Before any
	After  any
}

// Noted is a change as it was noted.
type Noted struct {
	ID     event.ID
	At     time.Time
	KeyID  event.ID // zero: the operator's own
	Actor  string
	Action string
	Object string
	Before json.RawMessage
	After  json.RawMessage
}

// Execer is a pool or a transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Note notes a change. Given the transaction of the change, neither stands without the
// other.
func Note(ctx context.Context, to Execer, by Caller, c Change) error {
	return note(ctx, to, event.NewID(time.Now()), by, c)
}

func note(ctx context.Context, to Execer, id event.ID, by Caller, c Change) error {
	before, err := told(c.Before)
	if err != nil {
		return err
	}
	after, err := told(c.After)
	if err != nil {
		return err
	}
	if _, err := to.Exec(ctx, sqlAddAudit, pgx.NamedArgs{
		"id": [16]byte(id), "key": pg.OrNull([16]byte(by.ID)), "actor": by.Name, "action": c.Action, "object": c.Object, "before": before, "after": after,
	}); err != nil {
		return fmt.Errorf("note a change: %w", err)
	}
	return nil
}

// told is a value as JSON, or null.
func told(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("note a change: %w", err)
	}
	return text, nil
}

// Begin notes a call on many before it is done, since it is no single transaction: what
// is not noted is not done. [Keys.End] adds what it came to.
func (k *Keys) Begin(ctx context.Context, by Caller, c Change) (event.ID, error) {
	id := event.NewID(time.Now())
	return id, note(ctx, k.pool, id, by, c)
}

// End adds to a note what the call came to.
func (k *Keys) End(ctx context.Context, id event.ID, after any) error {
	text, err := told(after)
	if err != nil {
		return err
	}
	if _, err := k.pool.Exec(ctx, sqlEndAudit, pgx.NamedArgs{"id": [16]byte(id), "after": text}); err != nil {
		return fmt.Errorf("note what a call came to: %w", err)
	}
	return nil
}

// Audit is up to limit noted changes below an id, newest first.
func (k *Keys) Audit(ctx context.Context, below event.ID, limit int) ([]Noted, error) {
	rows, err := k.pool.Query(ctx, sqlListAudit, pgx.NamedArgs{"below": pg.OrNull([16]byte(below)), "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("read the audit: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n Noted, err error) {
		var key *[16]byte
		err = row.Scan((*[16]byte)(&n.ID), &n.At, &key, &n.Actor, &n.Action, &n.Object, &n.Before, &n.After)
		if key != nil {
			n.KeyID = *key
		}
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the audit: %w", err)
	}
	return list, nil
}

// toldKey is a key as the audit tells of it.
type toldKey struct {
	Name      string     `json:"name"`
	Prefix    string     `json:"prefix"`
	Scopes    []Scope    `json:"scopes"`
	Tenant    string     `json:"tenant,omitempty"`
	Rate      *Rate      `json:"rate,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

func tellKey(k *Key) toldKey {
	return toldKey{k.Name, k.Prefix, k.Scopes, k.Tenant, pg.OrNull(k.Rate), k.ExpiresAt, k.RevokedAt}
}
