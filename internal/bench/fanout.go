package bench

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

var fanout = scenario{
	name: "fanout", bound: 3 * time.Minute,
	about:   "one event of 1 KiB to each of 10,000 targets of a fan-out receiver",
	asserts: "one event on record, and 10,000 deliveries that succeeded, with one attempt on record and one request that arrived each",
	run:     measureFanout,
}

func measureFanout(ctx context.Context, s *stage) error {
	n := s.many(10_000)
	k, err := s.sink(nil)
	if err != nil {
		return err
	}
	if err := s.service.call(ctx, "PUT", "/v1/receivers/bench", `{"events":["bench"],"fan_out":true}`); err != nil {
		return err
	}
	s.tell("declaring targets")
	targets := make([]string, n)
	for i := range targets {
		targets[i] = fmt.Sprintf(`{"target":"t%d","url":"%s%d","secret":"%s"}`, i, k.url, i, secretText)
	}
	if err := s.service.call(ctx, "POST", "/v1/receivers/bench/targets/import", `{"targets":[`+strings.Join(targets, ",")+`]}`); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	c, err := newCaller(s.service.base, "/v1/events")
	if err != nil {
		return err
	}
	defer c.close()
	before, wait, began, t := s.usage(ctx), s.profiled(ctx, s.options.Span), sinceEpoch(), &tally{}
	s.fire(c, "fanout", write("bench", 1<<10), t)
	s.figure("POST to 201", milliseconds(sinceEpoch()-began), "ms")
	if err := cmp.Or(t.err(), s.arrived(ctx, k, n), s.recorded(ctx)); err != nil {
		return err
	}
	took := sinceEpoch() - began
	s.figure("POST to the last of them on record", milliseconds(took), "ms")
	s.figure("rate", float64(n)/took.Seconds(), "deliveries/s")
	s.shares(ctx, before, "")
	wait()
	return s.whole(ctx, counts{}, 1, n, k)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
