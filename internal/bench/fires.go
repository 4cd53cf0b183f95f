package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

var fires = scenario{
	name: "fires", bound: 3 * time.Minute,
	about:   "single fires over HTTP, each under its own key, to one receiver, which is paused",
	asserts: "each fire that was answered 201 is one event and one delivery owed, and no other is",
	run:     measureFires,
}

func measureFires(ctx context.Context, s *stage) error {
	k, err := s.receiver(ctx, "bench", "bench", "", nil)
	if err != nil {
		return err
	}
	if err := s.pause(ctx, "bench"); err != nil {
		return err
	}
	fired := 0
	for _, m := range []struct {
		callers, size int
		said          string
	}{
		{1, 1 << 10, "1 caller, 1 KiB"}, {8, 1 << 10, "8 callers, 1 KiB"}, {64, 1 << 10, "64 callers, 1 KiB"}, {256, 1 << 10, "256 callers, 1 KiB"},
		{64, 200, "64 callers, 200 B"}, {64, 16 << 10, "64 callers, 16 KiB"},
	} {
		s.tell(m.said)
		before, wait := s.usage(ctx), s.profiled(ctx, s.options.Span)
		t := s.closed(ctx, m.callers, m.size, s.options.Span/5, s.options.Span)
		wait()
		s.figure(m.said, t.rate(), "fires/s")
		if m.said == "64 callers, 1 KiB" {
			s.shares(ctx, before, ", "+m.said)
		}
		fired += int(t.accepted.Load())
		if err := cmp.Or(t.err(), s.owedFor(ctx, fired)); err != nil {
			return fmt.Errorf("%s: %w", m.said, err)
		}
	}
	return equal("requests to a receiver that is paused", int(k.count.Load()), 0)
}

// owedFor holds the tables against what was answered 201.
func (s *stage) owedFor(ctx context.Context, fired int) error {
	now, err := s.counts(ctx)
	if err != nil {
		return err
	}
	return cmp.Or(equal("events on record", now.events, fired), equal("deliveries owed", now.owed, fired), equal("deliveries that ended", now.settled, 0))
}
