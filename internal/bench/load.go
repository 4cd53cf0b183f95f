package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// stamp begins the data of every event that the load fires: when that was.
const (
	stamp       = `{"at":1`
	stampDigits = 18
)

// padding is text that does not compress to nothing.
var padding = func() string {
	b := make([]byte, 48<<10)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}()

// dataOf is the data of an event, stamped with zeros.
func dataOf(size int) string {
	zeros := fmt.Sprintf("%0*d", stampDigits, 0)
	return stamp + zeros + `,"pad":"` + padding[:max(0, size-len(stamp)-stampDigits-len(`,"pad":""}`))] + `"}`
}

// letter is the body of a fire, of which only the time changes.
type letter struct {
	body []byte
	at   int
}

// write makes a body of a size, as posted.
func write(kind string, size int) *letter {
	around := `{"type":"` + kind + `","data":}`
	body := []byte(`{"type":"` + kind + `","data":` + dataOf(size-len(around)) + `}`)
	return &letter{body: body, at: bytes.Index(body, []byte(stamp)) + len(stamp)}
}

// now stamps it.
func (l *letter) now() []byte {
	putStamp(l.body[l.at:], sinceEpoch())
	return l.body
}

func putStamp(into []byte, t time.Duration) {
	for i, n := stampDigits-1, int64(t); i >= 0; i, n = i-1, n/10 {
		into[i] = byte('0' + n%10)
	}
}

// tally is what came of a load.
type tally struct {
	accepted atomic.Int64 // in all
	measured atomic.Int64 // of those, after the warm-up
	refused  atomic.Int64
	span     time.Duration // of what was measured
	failure  atomic.Pointer[error]
}

func (t *tally) rate() float64 { return float64(t.measured.Load()) / t.span.Seconds() }

// err is that something was not accepted.
func (t *tally) err() error {
	if failure := t.failure.Load(); failure != nil {
		return fmt.Errorf("%d fires were not accepted, the first of them: %w", t.refused.Load(), *failure)
	}
	return nil
}

func (t *tally) refuse(err error) {
	t.refused.Add(1)
	t.failure.CompareAndSwap(nil, &err)
}

// closed has callers fire one after the other, each as soon as it was answered, for a
// warm-up and a span.
func (s *stage) closed(ctx context.Context, callers, size int, warm, span time.Duration) *tally {
	t := &tally{span: span}
	begin := sinceEpoch() + warm
	s.each(ctx, callers, "/v1/events", t, func(c *caller, prefix string) {
		l := write("bench", size)
		for n := 0; sinceEpoch() < begin+span && ctx.Err() == nil; n++ {
			if !s.fire(c, prefix+strconv.Itoa(n), l, t) {
				return
			}
			if now := sinceEpoch(); now >= begin && now < begin+span {
				t.measured.Add(1)
			}
		}
	})
	return t
}

// paced fires at a rate, whether answers come or not: as long as a caller is free.
func (s *stage) paced(ctx context.Context, rate, callers, size int, span time.Duration) *tally {
	t := &tally{span: span}
	began, next := sinceEpoch(), atomic.Int64{}
	s.each(ctx, callers, "/v1/events", t, func(c *caller, prefix string) {
		l := write("bench", size)
		for ctx.Err() == nil {
			n := next.Add(1) - 1
			due := began + time.Duration(n)*time.Second/time.Duration(rate)
			if due >= began+span {
				return
			}
			time.Sleep(due - sinceEpoch())
			if !s.fire(c, prefix+strconv.FormatInt(n, 10), l, t) {
				return
			}
			t.measured.Add(1)
		}
	})
	return t
}

// fire posts one event. A caller that was not understood is of no use any more.
func (s *stage) fire(c *caller, key string, l *letter, t *tally) (goOn bool) {
	status, err := c.post(key, l.now(), false)
	if err == nil && status != 201 {
		err = fmt.Errorf("status %d", status)
	}
	if err != nil {
		t.refuse(err)
		return status != 0
	}
	t.accepted.Add(1)
	return true
}

// each runs so many callers, whose keys differ, until all are done.
func (s *stage) each(ctx context.Context, callers int, path string, t *tally, run func(c *caller, prefix string)) {
	s.loads++
	var all sync.WaitGroup
	defer all.Wait()
	for n := range callers {
		c, err := newCaller(s.service.base, path)
		if err != nil {
			t.refuse(err)
			return
		}
		all.Go(func() {
			defer c.close()
			run(c, fmt.Sprintf("%d-%d-", s.loads, n))
		})
	}
}
