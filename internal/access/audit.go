package access

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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

// Note notes changes. Given the transaction of the changes, neither stands without the
// other.
func Note(ctx context.Context, to Execer, by Caller, changes ...Change) error {
	_, err := note(ctx, to, by, changes)
	return err
}

// note notes changes and answers the notes' ids.
func note(ctx context.Context, to Execer, by Caller, changes []Change) (ids []event.ID, err error) {
	raw := make([][16]byte, len(changes))
	actions, objects := make([]string, len(changes)), make([]string, len(changes))
	befores, afters := make([]*string, len(changes)), make([]*string, len(changes))
	for i, c := range changes {
		id := event.NewID(time.Now())
		ids, raw[i], actions[i], objects[i] = append(ids, id), id, c.Action, c.Object
		if befores[i], err = told(c.Before); err != nil {
			return nil, err
		}
		if afters[i], err = told(c.After); err != nil {
			return nil, err
		}
	}
	if _, err := to.Exec(ctx, sqlAddAudit, pg.Args{
		"ids": raw, "key": pg.OrNull([16]byte(by.ID)), "actor": by.Name, "actions": actions, "objects": objects, "befores": befores, "afters": afters,
	}); err != nil {
		return nil, fmt.Errorf("note a change: %w", err)
	}
	return ids, nil
}

// told is a value as JSON, or null. NUL, which jsonb cannot hold, is left out of texts.
func told(v any) (*string, error) {
	if v == nil {
		return nil, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("note a change: %w", err)
	}
	kept := withoutNUL(string(text))
	return &kept, nil
}

// withoutNUL drops the escapes of NUL from a JSON text; a backslash that is escaped itself
// begins none.
func withoutNUL(text string) string {
	if !strings.Contains(text, `\u0000`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], `\u0000`):
			i += len(`\u0000`) - 1
		case text[i] == '\\' && i+1 < len(text):
			b.WriteString(text[i : i+2])
			i++
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String()
}

// Begin notes a call on many before it is done, since it is no single transaction: what
// is not noted is not done. [Keys.End] adds what it came to.
func (k *Keys) Begin(ctx context.Context, by Caller, c Change) (event.ID, error) {
	ids, err := note(ctx, k.pool, by, []Change{c})
	if err != nil {
		return event.ID{}, err
	}
	return ids[0], nil
}

// End adds to a note what the call came to.
func (k *Keys) End(ctx context.Context, id event.ID, after any) error {
	text, err := told(after)
	if err != nil {
		return err
	}
	if _, err := k.pool.Exec(ctx, sqlEndAudit, pg.Args{"id": [16]byte(id), "after": text}); err != nil {
		return fmt.Errorf("note what a call came to: %w", err)
	}
	return nil
}

// Audit is up to limit noted changes below an id, newest first.
func (k *Keys) Audit(ctx context.Context, below event.ID, limit int) ([]Noted, error) {
	rows, err := k.pool.Query(ctx, sqlListAudit, pg.Args{"below": pg.OrNull([16]byte(below)), "limit": limit})
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
	Owner     string     `json:"owner"`
	Prefix    string     `json:"prefix"`
	Scopes    []Scope    `json:"scopes"`
	Tenant    string     `json:"tenant,omitempty"`
	Rate      *Rate      `json:"rate,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

func tellKey(k *Key) toldKey {
	return toldKey{k.Name, k.Owner, k.Prefix, k.Scopes, k.Tenant, pg.OrNull(k.Rate), k.ExpiresAt, k.RevokedAt}
}
