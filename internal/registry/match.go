package registry

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

type matchKey struct{ eventType, tenant string }

// maxMatches bounds the cache of matches: tenants and types are given by callers.
const maxMatches = 10_000

// candidates are the targets that want events of one type and tenant, in the order of
// their numbers.
type candidates struct {
	entries []*entry
	targets []*event.Target // of all of them
	choosy  bool            // one of them at least has a filter
}

// Match is every target that an event is owed to, in the order of their numbers, with the
// revision that says so. It is the one place where that is decided.
func (b *Book) Match(o *Occasion) ([]*event.Target, int64) {
	p := b.page.Load()
	c := p.candidates(matchKey{o.Type, o.Facts.Tenant})
	if !c.choosy {
		return c.targets, p.revision
	}
	var matched []*event.Target
	for _, e := range c.entries {
		if b.met(e, o) {
			matched = append(matched, e.target)
		}
	}
	return matched, p.revision
}

// met is whether an event meets all filters of a target.
func (b *Book) met(e *entry, o *Occasion) bool {
	if e.barred {
		return false
	}
	for _, f := range e.filters {
		met, err := o.meets(f)
		if err != nil && b.failing.count(e.target.Receiver.Key, time.Now()) {
			b.log.Warn("a filter failed on an event, which counts as no match", "receiver", e.target.Receiver.Key, "target", e.target.Name, "type", o.Type, "why", fault(err))
		}
		if !met {
			return false
		}
	}
	return true
}

func (p *page) candidates(key matchKey) *candidates {
	if found, ok := p.matches.Load(key); ok {
		return found.(*candidates)
	}
	c := &candidates{}
	for _, e := range p.targets {
		if e.target.Wants(key.eventType, key.tenant) {
			c.entries = append(c.entries, e)
			c.choosy = c.choosy || e.barred || len(e.filters) > 0
		}
	}
	slices.SortFunc(c.entries, func(x, y *entry) int { return int(x.target.ID) - int(y.target.ID) })
	for _, e := range c.entries {
		c.targets = append(c.targets, e.target)
	}
	if p.cached.Add(1) <= maxMatches {
		p.matches.Store(key, c)
	}
	return c
}

// failingFilters counts the errors of filters, by receiver.
type failingFilters struct {
	mu     sync.Mutex
	counts map[string]int64
	warned map[string]time.Time
}

// warnEvery is how often the errors of one receiver's filters are told in the log.
const warnEvery = time.Minute

// count reports whether it is time to tell of it.
func (f *failingFilters) count(receiver string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts, f.warned = map[string]int64{}, map[string]time.Time{}
	}
	f.counts[receiver]++
	if now.Sub(f.warned[receiver]) < warnEvery {
		return false
	}
	f.warned[receiver] = now
	return true
}

// FilterErrors are how often filters failed in this process, by receiver.
func (b *Book) FilterErrors() map[string]int64 {
	b.failing.mu.Lock()
	defer b.failing.mu.Unlock()
	return maps.Clone(b.failing.counts)
}

// fault is what went wrong in a filter, without what the event holds.
func fault(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "cost limit"):
		return "it takes too many steps on this event"
	case strings.HasPrefix(text, "no such overload"):
		return "it compares or combines values of types that do not go together"
	case strings.HasPrefix(text, "came to a"):
		return "it " + text
	}
	return "it could not be evaluated"
}
