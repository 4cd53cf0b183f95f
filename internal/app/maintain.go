package app

import (
	"context"
	"time"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// maintainEvery is how often the house is looked after. Partitions are made weeks
// ahead, so a round that fails costs nothing.
const maintainEvery = time.Hour

// maintain looks after what the tables need, at start and then every hour.
func (h *house) maintain(ctx context.Context) {
	for ctx.Err() == nil {
		if made, err := pg.MakePartitions(ctx, h.pools.health); err != nil && ctx.Err() == nil {
			h.Log.WarnContext(ctx, "partitions could not be made; trying again later", "in", maintainEvery, "err", err)
		} else if made > 0 {
			h.Log.InfoContext(ctx, "made partitions", "count", made)
		}
		t := time.NewTimer(maintainEvery)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}
