package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// ErrNotFound says that there is no key of that id.
var ErrNotFound = errors.New("there is no such API key")

// Keys reads and writes API keys and the audit.
type Keys struct {
	pool *pgxpool.Pool
}

// NewKeys makes them over the pool.
func NewKeys(pool *pgxpool.Pool) *Keys { return &Keys{pool} }

// Issue makes a key. What opens is answered here, this once, and kept nowhere. The draft
// must have passed Check.
func (k *Keys) Issue(ctx context.Context, by Caller, d Draft) (key Key, opens string, err error) {
	opens = newKey()
	sum := hashOf(opens)
	scopes := make([]string, len(d.Scopes))
	for i, s := range d.Scopes {
		scopes[i] = string(s)
	}
	burst := d.Rate.Burst
	if burst == 0 {
		burst = d.Rate.PerSecond
	}
	err = pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlAddKey, pg.Args{
			"id": [16]byte(event.NewID(time.Now())), "name": d.Name, "owner": cmp.Or(d.Owner, d.Name), "hash": sum[:], "prefix": opens[:shownLength], "scopes": scopes,
			"tenant": pg.OrNull(d.Tenant), "rate": pg.OrNull(d.Rate.PerSecond), "burst": pg.OrNull(burst), "expires": pg.OrNull(d.ExpiresAt),
		})
		if err != nil {
			return err
		}
		if key, err = pgx.CollectExactlyOneRow(rows, scanKey); err != nil {
			return err
		}
		return Note(ctx, tx, by, Change{Action: "issue-key", Object: key.ID.Text(event.KeyPrefix), After: tellKey(&key)})
	})
	if err != nil {
		return Key{}, "", fmt.Errorf("issue an API key: %w", err)
	}
	return key, opens, nil
}

// Revoke ends a key: once it has returned, no process lets the key in. Of a key that was
// revoked before it changes nothing.
func (k *Keys) Revoke(ctx context.Context, by Caller, id event.ID) (Key, error) {
	var key Key
	err := pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlLockKey, pg.Args{"id": [16]byte(id)})
		if err != nil {
			return err
		}
		if key, err = pgx.CollectExactlyOneRow(rows, scanKey); err != nil || key.RevokedAt != nil {
			return err
		}
		before := tellKey(&key)
		if err := tx.QueryRow(ctx, sqlRevokeKey, pg.Args{"id": [16]byte(id)}).Scan(&key.RevokedAt); err != nil {
			return err
		}
		return Note(ctx, tx, by, Change{Action: "revoke-key", Object: id.Text(event.KeyPrefix), Before: before, After: tellKey(&key)})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Key{}, ErrNotFound
	}
	if err != nil {
		return Key{}, fmt.Errorf("revoke an API key: %w", err)
	}
	return key, nil
}

// List is up to limit keys below an id, newest first, those that were revoked among
// them.
func (k *Keys) List(ctx context.Context, below event.ID, limit int) ([]Key, error) {
	rows, err := k.pool.Query(ctx, sqlListKeys, pg.Args{"below": pg.OrNull([16]byte(below)), "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanKey)
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	return list, nil
}

// Any reports whether there is a key that opens.
func (k *Keys) Any(ctx context.Context) (any bool, err error) {
	if err := k.pool.QueryRow(ctx, sqlAnyKey).Scan(&any); err != nil {
		return false, fmt.Errorf("look for an API key: %w", err)
	}
	return any, nil
}

func scanKey(row pgx.CollectableRow) (k Key, err error) {
	var scopes []string
	err = row.Scan(&k.Number, (*[16]byte)(&k.ID), &k.Producer, &k.Owner, &k.Name, &k.Prefix, &scopes, &k.Tenant, &k.Rate.PerSecond, &k.Rate.Burst,
		&k.CreatedAt, &k.ExpiresAt, &k.RevokedAt, &k.LastUsedAt)
	k.Scopes = scopesOf(scopes)
	return k, err
}

func scopesOf(names []string) []Scope {
	scopes := make([]Scope, len(names))
	for i, n := range names {
		scopes[i] = Scope(n)
	}
	return scopes
}
