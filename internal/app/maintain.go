package app

import (
	"context"
	"time"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// maintainEvery is how often the house is looked after. Partitions are made weeks
// ahead, so a round that fails costs nothing.
const maintainEvery = time.Hour

// maintainTimeout bounds a round's wait for the database.
const maintainTimeout = 30 * time.Second

// maintain looks after what the tables need, at start and then every hour.
func (h *house) maintain(ctx context.Context) {
	for ctx.Err() == nil {
		if made, err := h.makePartitions(ctx); err != nil && ctx.Err() == nil {
			h.Log.WarnContext(ctx, "partitions could not be made; trying again later", "in", maintainEvery, "err", err)
		} else if made > 0 {
			h.Log.InfoContext(ctx, "made partitions", "count", made)
		}
		pause(ctx, maintainEvery)
	}
}

// sweepTime bounds one sweep, so that several processes share the work.
const sweepTime = 30 * time.Second

// sweep prunes what is past its retention, first after one interval and then at each,
// however busy the process is. One process does it at a time, the others pass. A sweep
// that fails is tried again after the interval; a stop waits for one transaction at most.
func (h *house) sweep(ctx context.Context) {
	every := time.Duration(h.Config.PruneEvery)
	if every == 0 {
		return
	}
	for {
		pause(ctx, every)
		if ctx.Err() != nil {
			return
		}
		h.sweepOnce(ctx)
	}
}

func (h *house) sweepOnce(ctx context.Context) {
	p := h.prune()
	p.Until = time.Now().Add(sweepTime)
	pruned := 0
	err := pg.Alone(ctx, h.pools.health, "prune", func(ctx context.Context) error {
		done, err := h.desk.Prune(ctx, p)
		pruned = done.Events
		return err
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		h.Log.WarnContext(ctx, "pruning failed; trying again later", "in", time.Duration(h.Config.PruneEvery), "err", err)
	case pruned > 0:
		h.Log.InfoContext(ctx, "pruned events past their retention", "events", pruned)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (h *house) makePartitions(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, maintainTimeout)
	defer cancel()
	return pg.MakePartitions(ctx, h.pools.health)
}
