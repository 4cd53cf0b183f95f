package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

var history = scenario{
	name: "history", bound: 20 * time.Minute, beside: true,
	about:   "the drain again, beside 5,000,000 deliveries that have succeeded in the last six days",
	asserts: "as for drain, and what was finished is as it was",
	run: func(ctx context.Context, s *stage) error {
		n := s.many(100_000)
		k, err := s.receiver(ctx, "bench", "bench", wide, nil)
		if err != nil {
			return err
		}
		if err := cmp.Or(s.declare(ctx, "past", "past", `"url":"`+k.url+`"`), s.pause(ctx, "bench"),
			s.finish(ctx, "past", "past", s.many(5_000_000)), s.owe(ctx, "bench", "bench", dataOf(1<<10), n)); err != nil {
			return err
		}
		return cmp.Or(s.drained(ctx, k, n), s.beside())
	},
}

var pending = scenario{
	name: "pending", bound: 10 * time.Minute, beside: true,
	about:   "the drain again, of a backlog of 1,000,000 events of 1 KiB, for two measurements, and then a pause",
	asserts: "each delivery is either owed or has succeeded; each that has, has one attempt on record and one request that arrived",
	run:     measurePending,
}

func measurePending(ctx context.Context, s *stage) error {
	n := s.many(1_000_000)
	k, err := s.receiver(ctx, "bench", "bench", wide, nil)
	if err != nil {
		return err
	}
	if err := cmp.Or(s.pause(ctx, "bench"), s.owe(ctx, "bench", "bench", dataOf(1<<10), n)); err != nil {
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
	err = s.await(ctx, "the drain to have run for a while", func() (bool, error) {
		s.tell(fmt.Sprintf("%s have arrived", thousands(fmt.Sprint(k.count.Load()))))
		return sinceEpoch()-began > 2*s.options.Span, nil
	})
	if err != nil {
		return err
	}
	s.figure(drained, float64(k.count.Load())/(sinceEpoch()-began).Seconds(), "deliveries/s")
	s.shares(ctx, before, "")
	wait()
	if err := cmp.Or(s.pause(ctx, "bench"), s.unheld(ctx)); err != nil {
		return err
	}
	done := int(k.count.Load())
	now, err := s.counts(ctx)
	if err != nil {
		return err
	}
	if err := cmp.Or(equal("deliveries owed or ended", now.owed+now.settled, n), s.whole(ctx, counts{}, n, done, k)); err != nil {
		return err
	}
	return s.stopped(ctx, func() error { return cmp.Or(s.costs(ctx, costBefore, float64(done)), s.beside()) })
}

// unheld waits until no delivery is under a claim.
func (s *stage) unheld(ctx context.Context) error {
	return s.await(ctx, "all claims to be recorded", func() (none bool, err error) {
		err = s.db.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM eventsvc.owed WHERE claimed_by <> 0)`).Scan(&none)
		return none, err
	})
}

// beside compares with the drain over an empty database that was measured right before, if
// that held.
func (s *stage) beside() error {
	before := &s.report.Scenarios[len(s.report.Scenarios)-2]
	if before.Failure != "" {
		return nil
	}
	for _, name := range []string{drained, claimCost, recordCost} {
		was, is := before.figure(name), s.out.figure(name)
		if was > 0 && is > 0 {
			s.figure(name+", beside that over an empty database", is/was, "x")
		}
	}
	return nil
}

var snapshot = scenario{
	name: "snapshot", bound: 15 * time.Minute,
	about:   "a drain of 1,000,000 events of 200 B, while somebody else's transaction holds a snapshot open from before it",
	asserts: "as for drain; and where it takes 20 s or longer, the last 5 s run at 70 % of the first 5 s or faster",
	run:     measureSnapshot,
}

func measureSnapshot(ctx context.Context, s *stage) error {
	n := s.many(1_000_000)
	k, err := s.receiver(ctx, "bench", "bench", wide, nil)
	if err != nil {
		return err
	}
	if err := cmp.Or(s.pause(ctx, "bench"), s.owe(ctx, "bench", "bench", dataOf(200), n)); err != nil {
		return err
	}
	release, err := s.holdSnapshot(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := s.drained(ctx, k, n); err != nil {
		return err
	}
	return s.flat(k.arrivals())
}

// holdSnapshot begins a transaction that nothing may be vacuumed past.
func (s *stage) holdSnapshot(ctx context.Context) (release func(), err error) {
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM eventsvc.registry`); err != nil {
		conn.Release()
		return nil, err
	}
	return func() {
		conn.Exec(context.WithoutCancel(ctx), `ROLLBACK`)
		conn.Release()
	}, nil
}

const (
	flatSpan  = 5 * time.Second
	flatShare = 0.7
)

// flat compares the end of a drain with its beginning.
func (s *stage) flat(all []arrival) error {
	began, end := all[0].at, all[0].at
	for _, a := range all {
		began, end = min(began, a.at), max(end, a.at)
	}
	span := min(flatSpan, (end-began)/4)
	var early, late float64
	for _, a := range all {
		if a.at < began+span {
			early++
		}
		if a.at >= end-span {
			late++
		}
	}
	s.figure("in the first seconds", early/span.Seconds(), "deliveries/s")
	s.figure("in the last seconds", late/span.Seconds(), "deliveries/s")
	if span == flatSpan && late < flatShare*early {
		return fmt.Errorf("the last %s ran at %.0f %% of the first", flatSpan, late/early*100)
	}
	return nil
}
