package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

var prune = scenario{
	name: "prune", bound: 10 * time.Minute,
	about:   "600,000 finished deliveries of the last six days, of which those older than a day are pruned while 64 callers fire as fast as they can and everything is delivered",
	asserts: "nothing older is left, nothing younger is gone; each fire that was answered 201 is one delivery that succeeded",
	run:     measurePrune,
}

// measurePrune holds what retention deletes in a second against what is fired meanwhile.
func measurePrune(ctx context.Context, s *stage) error {
	k, err := s.receiver(ctx, "bench", "bench", wide, nil)
	if err != nil {
		return err
	}
	n := s.many(600_000)
	if err := cmp.Or(s.declare(ctx, "past", "past", `"url":"`+k.url+`"`), s.finish(ctx, "past", "past", n)); err != nil {
		return err
	}
	least, err := s.older(ctx)
	if err != nil {
		return err
	}
	counted := sinceEpoch()
	fires, enough := context.WithCancel(ctx)
	defer enough()
	loaded := make(chan *tally, 1)
	go func() { loaded <- s.closed(fires, unboundedCalls, 1<<10, 0, time.Hour) }()
	if err := s.arrived(ctx, k, 1); err != nil {
		return err
	}
	s.tell("pruning")
	before, since, began := s.usage(ctx), k.count.Load(), sinceEpoch()
	if err := s.prune(ctx); err != nil {
		return err
	}
	took := (sinceEpoch() - began).Seconds()
	s.shares(ctx, before, "")
	delivered := float64(k.count.Load() - since)
	enough()
	t := <-loaded
	fired := int(t.accepted.Load())
	left, err := s.older(ctx)
	if err != nil {
		return err
	}
	aged := int((sinceEpoch()-counted)/(finishedOver/time.Duration(n))) + 1 // became older meanwhile, at most
	if err := cmp.Or(t.err(), s.arrived(ctx, k, fired), s.recorded(ctx)); err != nil {
		return err
	}
	now, err := s.counts(ctx)
	if err != nil {
		return err
	}
	gone := n + fired - now.events
	s.figure("pruned", float64(gone)/took, "events/s")
	s.figure("delivered meanwhile", delivered/took, "deliveries/s")
	s.figure("pruned for each that was fired and delivered meanwhile", float64(gone)/delivered, "")
	if gone < least || gone > least+aged || left > aged {
		return fmt.Errorf("%d events were pruned, and %d are left that are older; %d were at first, and %d at most became so", gone, left, least, aged)
	}
	return cmp.Or(equal("deliveries that ended", now.settled, now.events), equal("requests that arrived", int(k.count.Load()), fired))
}

// prune has the service prune until it is through.
func (s *stage) prune(ctx context.Context) error {
	for {
		text, err := s.service.answer(ctx, "POST", "/v1/prune", `{"older_than":"1d"}`)
		if err != nil {
			return err
		}
		var done struct{ More bool }
		if err := json.Unmarshal(text, &done); err != nil || !done.More {
			return err
		}
	}
}

// older is how many events are older than a day.
func (s *stage) older(ctx context.Context) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT count(*) FROM eventsvc.events WHERE recorded_at < now() - interval '1 day'`).Scan(&n)
	return n, err
}
