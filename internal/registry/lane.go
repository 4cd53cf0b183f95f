package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// Lane is a lane as it stands. It exists from the first receiver that was declared in
// it.
type Lane struct {
	Name      string
	PausedAt  *time.Time
	Receivers int // declared in it
}

// ErrNoLane says that no receiver was ever declared in a lane.
var ErrNoLane = errors.New("there is no such lane")

// Lanes are all of them, by name.
func (r *Registry) Lanes(ctx context.Context) ([]Lane, error) {
	rows, err := r.pool.Query(ctx, sqlListLanes)
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	lanes, err := pgx.CollectRows(rows, pgx.RowToStructByName[Lane])
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	return lanes, nil
}

// PauseLane stops new attempts in a lane, in every process, or lets them go on. What is
// owed there stays owed.
func (r *Registry) PauseLane(ctx context.Context, name string, paused bool) (Lane, error) {
	var now Lane
	err := r.write(ctx, func(tx pgx.Tx, revision int64) error {
		tag, err := tx.Exec(ctx, sqlPauseLane, pg.Args{"name": name, "paused": paused, "revision": revision})
		if err != nil {
			return fmt.Errorf("pause lane %s: %w", name, err)
		}
		if tag.RowsAffected() == 0 {
			return ErrNoLane
		}
		rows, err := tx.Query(ctx, sqlListLanes)
		if err != nil {
			return fmt.Errorf("list lanes: %w", err)
		}
		lanes, err := pgx.CollectRows(rows, pgx.RowToStructByName[Lane])
		for _, l := range lanes {
			if l.Name == name {
				now = l
			}
		}
		if err != nil {
			return fmt.Errorf("list lanes: %w", err)
		}
		return r.tell(ctx, tx, Change{Action: pauseAction("lane", paused), Object: "lanes/" + name, After: map[string]any{"paused": paused}})
	})
	return now, err
}
