package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// TypeDeclaration is what is declared of an event type. Nothing of it is required.
type TypeDeclaration struct {
	Description string
	Schema      []byte // JSON Schema of data, as written; nil: any
	Example     []byte // JSON, as written; nil: none
	Retention   string // see event.ParseRetention; "" is the process's window
}

// EventType is a declared type as it stands.
type EventType struct {
	Name        string
	Description string
	Schema      []byte
	Example     []byte
	Retention   string
	Version     int // the ETag
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Kind is a declared type as events of it are held to it.
type Kind struct {
	Name      string
	Retention event.Retention
	schema    *schema
}

// Check lists where data breaks the type's schema, as pointers below /data.
func (k *Kind) Check(data []byte) event.Flaws {
	if k == nil || k.schema == nil {
		return nil
	}
	return k.schema.check("/data", data)
}

// ErrNoType says that an event type is not declared.
var ErrNoType = errors.New("the event type is not declared")

const maxSchemaDescription = 1000

// CheckType lists everything that is wrong with the declaration of an event type, as
// event.Flaws, or answers nil.
func CheckType(name string, d *TypeDeclaration) error {
	var flaws event.Flaws
	if err := event.CheckType(name); err != nil {
		flaws.Add("", "the type "+err.Error())
	}
	if strings.HasPrefix(name, event.ReservedTypes) {
		flaws.Add("", "types that begin with "+event.ReservedTypes+" are the service's own")
	}
	plainText(&flaws, "/description", d.Description, maxSchemaDescription)
	if d.Retention != "" {
		if _, err := event.ParseRetention(d.Retention); err != nil {
			flaws.Add("/retention", err.Error())
		}
	}
	if d.Schema != nil {
		s, err := compileSchema(d.Schema)
		if err != nil {
			flaws.Add("/schema", err.Error())
		} else if d.Example != nil {
			flaws = append(flaws, s.check("/example", d.Example)...)
		}
	}
	return flaws.Err()
}

// PutType is what declaring an event type came to.
type PutType struct {
	Type    EventType
	Created bool
}

// DeclareType writes an event type: idempotent and complete. It must have passed
// CheckType. Events that are stored already stay as they are. ifVersion is as for
// [Registry.Declare].
func (r *Registry) DeclareType(ctx context.Context, name string, d TypeDeclaration, ifVersion int) (put PutType, err error) {
	err = r.write(ctx, func(tx pgx.Tx, revision int64) error {
		old, err := findType(ctx, tx, name)
		found := err == nil
		switch {
		case err != nil && !errors.Is(err, ErrNoType):
			return err
		case notAt(ifVersion, found, old.Version):
			return ErrChanged
		case found && old.Description == d.Description && old.Retention == d.Retention && string(old.Schema) == string(d.Schema) && string(old.Example) == string(d.Example):
			put = PutType{Type: old}
			return errUnchanged
		}
		_, err = tx.Exec(ctx, sqlPutType, pg.Args{
			"name": name, "description": d.Description, "schema": d.Schema, "example": d.Example, "retention": d.Retention, "revision": revision,
		})
		if err != nil {
			return fmt.Errorf("put event type %s: %w", name, err)
		}
		now, err := findType(ctx, tx, name)
		if err != nil {
			return err
		}
		put = PutType{Type: now, Created: !found}
		c := Change{Action: "put-event-type", Object: "event-types/" + name, After: toldType(&now)}
		if found {
			c.Before = toldType(&old)
		}
		return r.tell(ctx, tx, c)
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return put, err
}

// FindType is a declared type, or [ErrNoType].
func (r *Registry) FindType(ctx context.Context, name string) (EventType, error) {
	return findType(ctx, r.pool, name)
}

func findType(ctx context.Context, q querier, name string) (EventType, error) {
	rows, err := q.Query(ctx, sqlFindType, pg.Args{"name": name})
	if err != nil {
		return EventType{}, fmt.Errorf("find event type %s: %w", name, err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[EventType])
	if errors.Is(err, pgx.ErrNoRows) {
		return EventType{}, ErrNoType
	}
	if err != nil {
		return EventType{}, fmt.Errorf("find event type %s: %w", name, err)
	}
	return found, nil
}

// Types are up to limit declared types whose names come after the given one, in order.
func (r *Registry) Types(ctx context.Context, after string, limit int) ([]EventType, error) {
	rows, err := r.pool.Query(ctx, sqlListTypes, pg.Args{"after": after, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("list event types: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[EventType])
	if err != nil {
		return nil, fmt.Errorf("list event types: %w", err)
	}
	return list, nil
}

// RemoveType deletes the declaration of an event type. Its events stay, and are kept as
// was said when they were fired.
func (r *Registry) RemoveType(ctx context.Context, name string, ifVersion int) error {
	return r.write(ctx, func(tx pgx.Tx, revision int64) error {
		old, err := findType(ctx, tx, name)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sqlRemoveType, pg.Args{"name": name, "version": ifVersion, "revision": revision})
		if err != nil {
			return fmt.Errorf("remove event type %s: %w", name, err)
		}
		if tag.RowsAffected() == 0 {
			return ErrChanged
		}
		return r.tell(ctx, tx, Change{Action: "delete-event-type", Object: "event-types/" + name, Before: toldType(&old)})
	})
}
