package bench

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// besideRate is how many events a second the receiver gets that is well, and of which it
// is asked how long they take.
const besideRate = 100

var slow = scenario{
	name: "slow", bound: 3 * time.Minute,
	about:   "100 events a second to a receiver that is well, beside 300 deliveries to one that takes a fifth of the measurement for each",
	asserts: "each event, to either, is one delivery that succeeded, with one attempt on record and one request that arrived",
	run: func(ctx context.Context, s *stage) error {
		const n = 300
		k, err := s.receiver(ctx, "bench", "bench", "", nil)
		if err != nil {
			return err
		}
		other, err := s.receiver(ctx, "other", "other", "", func(k *sink) { k.delay = s.options.Span / 5 })
		if err != nil {
			return err
		}
		if err := s.owe(ctx, "other", "other", dataOf(1<<10), n); err != nil {
			return err
		}
		fired, err := s.well(ctx, k)
		if err != nil {
			return err
		}
		return cmp.Or(s.arrived(ctx, other, n), s.recorded(ctx), s.whole(ctx, counts{}, fired+n, fired+n, k, other))
	},
}

var dead = scenario{
	name: "dead", bound: 10 * time.Minute,
	about:   "100 events a second to a receiver that is well, beside 1,000,000 owed to one that refuses connections",
	asserts: "each event to the one that is well is one delivery that succeeded, with one request that arrived; the others are owed, none was lost",
	run:     measureDead,
}

func measureDead(ctx context.Context, s *stage) error {
	n := s.many(1_000_000)
	k, err := s.receiver(ctx, "bench", "bench", "", nil)
	if err != nil {
		return err
	}
	nobody, err := freeAddress()
	if err != nil {
		return err
	}
	if err := cmp.Or(s.declare(ctx, "other", "other", `"url":"http://`+nobody+`/"`), s.pause(ctx, "other"),
		s.owe(ctx, "other", "other", dataOf(200), n), s.resume(ctx, "other")); err != nil {
		return err
	}
	fired, err := s.well(ctx, k)
	if err != nil {
		return err
	}
	now, err := s.counts(ctx)
	if err != nil {
		return err
	}
	s.figure("attempts beside", float64(now.attempts-fired), "")
	distinct := map[string]bool{}
	for _, a := range k.arrivals() {
		distinct[a.id] = true
	}
	return cmp.Or(equal("events on record", now.events, n+fired), equal("deliveries owed to the one that is dead", now.owed, n), equal("deliveries that succeeded", now.succeeded, fired),
		equal("requests that arrived", int(k.count.Load()), fired), equal("different deliveries that arrived", len(distinct), fired))
}

// well fires at the receiver that is well, and says how long that took to arrive. It is
// over when the database knows that all have.
func (s *stage) well(ctx context.Context, k *sink) (fired int, err error) {
	before, wait := s.usage(ctx), s.profiled(ctx, s.options.Span)
	t := s.paced(ctx, besideRate, pacedCallers, 1<<10, s.options.Span)
	wait()
	fired = int(t.accepted.Load())
	if err := cmp.Or(t.err(), s.arrived(ctx, k, fired)); err != nil {
		return 0, err
	}
	s.shares(ctx, before, "")
	s.latencies(fmt.Sprintf("%d/s to the one that is well", besideRate), between(k.arrivals()))
	return fired, s.await(ctx, "all to be recorded", func() (done bool, err error) {
		var succeeded int
		err = s.db.QueryRow(ctx, `SELECT count(*) FROM eventsvc.settled s JOIN eventsvc.targets t ON t.id = s.target_id JOIN eventsvc.receivers r ON r.id = t.receiver_id
			WHERE r.key = 'bench' AND s.status = 'succeeded'`).Scan(&succeeded)
		return succeeded >= fired, err
	})
}

var storm = scenario{
	name: "storm", bound: 5 * time.Minute,
	about:   "20,000 deliveries to one receiver, which answers the first attempt at each 503 with a Retry-After that ends at one moment for all: they come back together",
	asserts: "each is one delivery that succeeded, with two attempts on record and two requests that arrived, under one id",
	run:     measureStorm,
}

func measureStorm(ctx context.Context, s *stage) error {
	n := s.many(20_000)
	var again time.Duration // when all may come back
	var met sync.Map
	k, err := s.receiver(ctx, "bench", "bench", wide, func(k *sink) {
		k.answer = func(id string) (status int, after time.Duration) {
			if _, known := met.LoadOrStore(id, true); known {
				return 200, 0
			}
			return 503, max(time.Second, again-sinceEpoch())
		}
	})
	if err != nil {
		return err
	}
	if err := cmp.Or(s.pause(ctx, "bench"), s.owe(ctx, "bench", "bench", dataOf(1<<10), n)); err != nil {
		return err
	}
	began := sinceEpoch()
	again = began + max(2*s.options.Span, 2*time.Second)
	if err := cmp.Or(s.resume(ctx, "bench"), s.arrived(ctx, k, n)); err != nil {
		return err
	}
	s.figure("first attempts", float64(n)/(sinceEpoch()-began).Seconds(), "attempts/s")
	if err := s.await(ctx, "them to come back", func() (bool, error) { return sinceEpoch() >= again, nil }); err != nil {
		return err
	}
	before, wait := s.usage(ctx), s.profiled(ctx, s.options.Span)
	came := sinceEpoch()
	if err := cmp.Or(s.arrived(ctx, k, 2*n), s.recorded(ctx)); err != nil {
		return err
	}
	s.figure("once they may come back", float64(n)/(sinceEpoch()-came).Seconds(), "deliveries/s")
	s.shares(ctx, before, "")
	wait()
	return s.tally(ctx, counts{}, n, n, 2*n, k)
}
