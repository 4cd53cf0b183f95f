package relay

import (
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// pace spaces the attempts of one target in this process as its rate limit says.
//
// Two things hold. What began in any span of the rate's length is never more than its
// count: that is what was declared, so it is kept by a record of what began. And what
// begins is spread evenly over the span, one an interval, so that a receiver that allows
// 300 a minute is not sent them in the first second. Rates above one in bunching begin as
// many together as fall into that time: a claim for each would be the loop's whole work.
type pace struct {
	rate  event.Rate
	next  time.Time // when, by even spacing, the next may begin
	began []stretch // what began in the last span, oldest first
	n     int       // their sum
}

// stretch is attempts that began close together.
type stretch struct {
	from, to time.Time
	n        int
}

const (
	bunching = 50 * time.Millisecond
	// lateness is how much later than planned an attempt may begin, for a claim takes
	// its time, without the plan moving with it: otherwise the rate would not be reached.
	lateness = 25 * time.Millisecond
	// stretches is how many a span is remembered in. What is remembered together counts
	// from its last moment, so a coarser memory is never a faster pace.
	stretches = 1000
)

// bunch is how many of a rate may begin together, and how long that many take.
func bunch(r event.Rate) (n int, takes time.Duration) {
	n = min(max(int(bunching/r.Interval()), 1), r.Count)
	return n, time.Duration(n-1) * r.Interval()
}

// room is how many may begin now. Where it is none, at is when some may.
func (p *pace) room(now time.Time, r event.Rate) (n int, at time.Time) {
	if p.rate != r {
		p.rate, p.next = r, time.Time{}
	}
	for len(p.began) > 0 && !now.Before(p.began[0].to.Add(r.Per)) {
		p.n -= p.began[0].n
		p.began = p.began[1:]
	}
	together, takes := bunch(r)
	switch {
	case p.n >= r.Count:
		return 0, p.began[0].to.Add(r.Per)
	case now.Before(p.next):
		return 0, p.next.Add(takes)
	}
	due := together
	if ahead := now.Sub(p.next) / r.Interval(); ahead < time.Duration(together) {
		due = int(ahead) + 1
	}
	return min(due, together, r.Count-p.n), time.Time{}
}

// start notes that n begin now.
func (p *pace) start(now time.Time, n int) {
	if n == 0 {
		return
	}
	_, takes := bunch(p.rate)
	if now.Sub(p.next) > takes+min(lateness, p.rate.Interval()/2) {
		p.next = now.Add(-takes)
	}
	p.next = p.next.Add(time.Duration(n) * p.rate.Interval())
	p.n += n
	if last := len(p.began) - 1; last >= 0 && now.Sub(p.began[last].from) < p.rate.Per/stretches {
		p.began[last].to = now
		p.began[last].n += n
		return
	}
	p.began = append(p.began, stretch{now, now, n})
}
