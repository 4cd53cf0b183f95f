package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"
)

var bulk = scenario{
	name: "bulk", bound: 2 * time.Minute,
	about:   "fires of 1 KiB over HTTP, 500 in a request, by 4 callers, to one receiver, which is paused",
	asserts: "each fire that was answered 201 is one event and one delivery owed, and no other is",
	run:     measureBulk,
}

const (
	bulkCallers = 4
	bulkEvents  = 500
)

func measureBulk(ctx context.Context, s *stage) error {
	if _, err := s.receiver(ctx, "bench", "bench", "", nil); err != nil {
		return err
	}
	if err := s.pause(ctx, "bench"); err != nil {
		return err
	}
	s.tell("firing")
	before, wait := s.usage(ctx), s.profiled(ctx, s.options.Span)
	t := s.bulks(ctx, s.options.Span/5, s.options.Span)
	wait()
	s.figure("bulk", t.rate(), "events/s")
	s.shares(ctx, before, "")
	return cmp.Or(t.err(), s.owedFor(ctx, int(t.accepted.Load())))
}

// bulks has callers fire many at a time. Requests are long: what was begun after the
// warm-up is measured to its end, and each caller begins one, however slow the machine.
func (s *stage) bulks(ctx context.Context, warm, span time.Duration) *tally {
	t := &tally{}
	begin := sinceEpoch() + warm
	s.each(ctx, bulkCallers, "/v1/events/bulk", t, func(c *caller, prefix string) {
		var body []byte
		for n, asked := 0, time.Duration(0); (asked < begin || sinceEpoch() < begin+span) && ctx.Err() == nil; n++ {
			asked = sinceEpoch()
			body = bulkBody(body[:0], prefix+strconv.Itoa(n)+"-")
			status, err := c.post("", body, true)
			accepted := int64(bytes.Count(c.body, []byte(`"status":201`)))
			if err == nil && accepted != bulkEvents {
				err = fmt.Errorf("status %d, with %d of %d events accepted", status, accepted, bulkEvents)
			}
			t.accepted.Add(accepted)
			if err != nil {
				t.refuse(err)
				return
			}
			if asked >= begin {
				t.measured.Add(accepted)
			}
		}
	})
	t.span = sinceEpoch() - begin
	return t
}

var bulkData = dataOf(1<<10 - 60)

func bulkBody(b []byte, prefix string) []byte {
	for i := range bulkEvents {
		if b = append(b, ','); i == 0 {
			b[0] = '['
		}
		b = append(append(b, `{"idempotency_key":"`...), prefix...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(append(append(b, `","type":"bench","data":`...), bulkData...), '}')
	}
	return append(b, ']')
}
