package app

import (
	"context"
	"sync"
	"time"

	"github.com/eventsvc/eventsvc/internal/relay"
)

// NoTasks is the error of a worker that nothing could be handed to.
func NoTasks() error {
	return ConfigError{"EVENTSVC_NATS_URL is not set, so nothing could be handed to a worker; give the URL of a NATS server with JetStream, the same as the relays'"}
}

// work takes what relays hand over, in the lanes of the command, until the context ends.
func (h *house) work(ctx context.Context) {
	taker := relay.NewTaker(h.runner, h.remote.Note)
	var all sync.WaitGroup
	defer all.Wait()
	consumed := map[string]bool{}
	consume := func(lane string) {
		if !consumed[lane] {
			consumed[lane] = true
			all.Go(func() { h.tasks.Consume(ctx, lane, taker.Handle) })
		}
	}
	for _, l := range h.Lanes {
		consume(l.Name)
	}
	if len(h.Lanes) > 0 {
		return
	}
	h.everyLane(ctx, consume)
}

// everyLane gives each lane there is, soon after its first receiver was declared.
func (h *house) everyLane(ctx context.Context, give func(lane string)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		lanes, err := h.registry.Lanes(ctx)
		if err != nil && ctx.Err() == nil {
			h.Log.WarnContext(ctx, "the lanes could not be read; trying again", "err", err)
		}
		for _, l := range lanes {
			give(l.Name)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
