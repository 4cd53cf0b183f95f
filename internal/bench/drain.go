package bench

import (
	"cmp"
	"context"
	"slices"
	"time"
)

var drain = scenario{
	name: "drain", bound: 5 * time.Minute,
	about:   "a backlog of 100,000 events of 1 KiB, signed, to one receiver",
	asserts: "each is one delivery that succeeded, with one attempt on record and one request that arrived; signatures hold",
	run: func(ctx context.Context, s *stage) error {
		n := s.many(100_000)
		k, err := s.receiver(ctx, "bench", "bench", wide, nil)
		if err != nil {
			return err
		}
		if err := cmp.Or(s.pause(ctx, "bench"), s.owe(ctx, "bench", "bench", dataOf(1<<10), n)); err != nil {
			return err
		}
		return s.drained(ctx, k, n)
	},
}

// wide lets one receiver have all that the relay can do.
const wide = `,"max_concurrency":256`

const drained = "drain"

// drained lets a backlog go that was written for a paused receiver, and notes what that
// cost.
func (s *stage) drained(ctx context.Context, k *sink, n int) error {
	since, err := s.counts(ctx)
	if err != nil {
		return err
	}
	diskBefore, err := s.disk(ctx)
	if err != nil {
		return err
	}
	costBefore, err := s.cost(ctx)
	if err != nil {
		return err
	}
	began, err := s.begun(ctx, k)
	if err != nil {
		return err
	}
	before, wait := s.usage(ctx), s.profiled(ctx, s.options.Span)
	if err := cmp.Or(s.arrived(ctx, k, n), s.recorded(ctx)); err != nil {
		return err
	}
	took := sinceEpoch() - began
	s.figure(drained, float64(n)/took.Seconds(), "deliveries/s")
	s.shares(ctx, before, "")
	wait()
	since.events -= n // they were written before
	if err := s.whole(ctx, since, n, n, k); err != nil {
		return err
	}
	diskAfter, err := s.disk(ctx)
	if err != nil {
		return err
	}
	s.figure("disk per million deliveries, beside their events", (diskAfter-diskBefore)/float64(n)*1e6/(1<<20), "MiB")
	return s.stopped(ctx, func() error { return s.costs(ctx, costBefore, float64(n)) })
}

// begun lets a backlog go, and says when the first of it arrived.
func (s *stage) begun(ctx context.Context, k *sink) (began time.Duration, err error) {
	asked := sinceEpoch()
	if err := cmp.Or(s.resume(ctx, "bench"), s.arrived(ctx, k, 1)); err != nil {
		return 0, err
	}
	began = sinceEpoch()
	for _, a := range k.arrivals() {
		began = min(began, a.at)
	}
	s.figure("from the resuming to the first of them", milliseconds(began-asked), "ms")
	return began, nil
}

// stopped does something while the service is not there.
func (s *stage) stopped(ctx context.Context, do func() error) error {
	s.remembered()
	s.service.stop()
	s.service = nil
	return do()
}

// between are the latencies of what arrived, shortest first.
func between(all []arrival) (took []time.Duration) {
	for _, a := range all {
		if a.fired > 0 {
			took = append(took, a.at-a.fired)
		}
	}
	slices.Sort(took)
	return took
}

// latencies notes how long they took from the POST to the door.
func (s *stage) latencies(of string, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	for _, q := range []struct {
		name  string
		share float64
	}{{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}} {
		s.figure(of+", "+q.name, milliseconds(took[int(q.share*float64(len(took)-1))]), "ms")
	}
}
