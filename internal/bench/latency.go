package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

var latency = scenario{
	name: "latency", bound: 5 * time.Minute,
	about:   "from the POST of an event of 1 KiB to its webhook at the receiver's door, by how many are fired",
	asserts: "each fire that was answered 201 is one delivery that succeeded, with one attempt on record and one request that arrived",
	run:     measureLatency,
}

const (
	pacedCallers   = 64
	unboundedCalls = 64
)

func measureLatency(ctx context.Context, s *stage) error {
	k, err := s.receiver(ctx, "bench", "bench", wide, nil)
	if err != nil {
		return err
	}
	warm := s.closed(ctx, 8, 1<<10, 0, s.options.Span/5)
	fired := int(warm.accepted.Load())
	if err := cmp.Or(warm.err(), s.arrived(ctx, k, fired), s.recorded(ctx)); err != nil {
		return err
	}
	for _, rate := range []int{100, 500, 0} {
		said := fmt.Sprintf("%d/s", rate)
		if rate == 0 {
			said = "unbounded, 64 callers"
		}
		s.tell(said)
		seen := len(k.arrivals())
		before, wait, began := s.usage(ctx), s.profiled(ctx, s.options.Span), sinceEpoch()
		var t *tally
		if rate > 0 {
			t = s.paced(ctx, rate, pacedCallers, 1<<10, s.options.Span)
		} else {
			t = s.closed(ctx, unboundedCalls, 1<<10, 0, s.options.Span)
		}
		n := int(t.accepted.Load())
		fired += n
		if err := cmp.Or(t.err(), s.arrived(ctx, k, fired)); err != nil {
			return fmt.Errorf("%s: %w", said, err)
		}
		through := float64(n) / (sinceEpoch() - began).Seconds()
		if err := s.recorded(ctx); err != nil {
			return err
		}
		wait()
		if rate == 0 {
			s.figure(said+", fired", t.rate(), "fires/s")
			s.figure(said+", POST to webhook", through, "events/s")
			s.shares(ctx, before, ", "+said)
		}
		s.latencies(said, between(latest(k.arrivals(), began)))
		if got := len(k.arrivals()) - seen; got != n {
			return fmt.Errorf("%s: %d arrived, and %d were fired", said, got, n)
		}
	}
	return s.whole(ctx, counts{}, fired, fired, k)
}

// latest are the arrivals of what was fired from a time on.
func latest(all []arrival, from time.Duration) (kept []arrival) {
	for _, a := range all {
		if a.fired >= from {
			kept = append(kept, a)
		}
	}
	return kept
}
