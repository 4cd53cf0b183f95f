package fire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/eventsvc/eventsvc/internal/event"
)

// VetoError says that an inline receiver did not agree to an event, so that nothing was
// stored. Reason is never anything that the receiver wrote.
type VetoError struct{ Receiver, Reason string }

// Error says so.
func (e VetoError) Error() string {
	return fmt.Sprintf("receiver %s did not agree: %s", e.Receiver, e.Reason)
}

// errUnasked says that an inline receiver has come up since an event's were asked.
var errUnasked = errors.New("an inline receiver was not asked")

// maxVotes bounds how often new inline receivers are asked about one event.
const maxVotes = 4

// unasked are the inline receivers among targets that have not agreed yet. What is
// suppressed concerns nobody, and nobody may veto the service's own events.
func (s *slip) unasked(targets []*event.Target) (to []*event.Target) {
	if s.draft.Suppress != nil || strings.HasPrefix(s.draft.Type, event.ReservedTypes) {
		return nil
	}
	for _, t := range targets {
		if t.Receiver.Mode == event.Inline && !slices.Contains(s.asked, t.ID) {
			to = append(to, t)
		}
	}
	return to
}

// again is a slip of the same event, for another try.
func (s *slip) again() *slip {
	next := newSlip(s.draft, s.kind)
	next.id, next.spent, next.asked = s.id, s.spent, s.asked
	return next
}

// vote asks the inline receivers of events, all at once and outside of any transaction of
// the database. It answers with the first veto, as a [PartError]. What this process knows
// of them may be old, so the registry is read first: after a veto no commit would do so.
func (d *Desk) vote(ctx context.Context, slips []*slip) error {
	if err := d.book.Read(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	asked, vetoes := make([][]*event.Target, len(slips)), make([][]error, len(slips))
	for i, s := range slips {
		targets, _ := d.book.Match(s.matched)
		asked[i] = s.unasked(targets)
		vetoes[i] = make([]error, len(asked[i]))
		e := s.fact()
		e.RecordedAt = s.id.Time() // as near as can be said yet
		for j, t := range asked[i] {
			all.Go(func() { vetoes[i][j] = d.veto(ctx, &e, t) })
		}
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, s := range slips {
		for j, t := range asked[i] {
			if err := vetoes[i][j]; err != nil {
				return PartError{i, err}
			}
			s.asked = append(s.asked, t.ID)
		}
	}
	return nil
}

// veto is why a receiver does not agree, or nil.
func (d *Desk) veto(ctx context.Context, e *event.Event, t *event.Target) error {
	if t.Paused {
		return VetoError{t.Receiver.Key, "it is paused, and so cannot agree"}
	}
	v := d.poll(ctx, e, t)
	if v.Ruling == event.Success {
		return nil
	}
	d.log.InfoContext(ctx, "an inline receiver did not agree to an event, which is not stored", "receiver", t.Receiver.Key, "event", e.ID.Text(event.EventPrefix), "class", v.Class, "why", v.Reason)
	return VetoError{t.Receiver.Key, reasonOf(&v)}
}

// reasonOf is what a producer may know of why.
func reasonOf(v *event.Verdict) string {
	switch {
	case v.HTTPStatus != 0:
		return fmt.Sprintf("it answered %03d", v.HTTPStatus)
	case v.Class == event.ClassTimeout:
		return "it did not answer within its timeout"
	}
	return fmt.Sprintf("it could not be asked (%s)", v.Class)
}

// allAsked is [errUnasked] where a receiver is to be asked still, by the book as it is.
func (d *Desk) allAsked(slips []*slip) error {
	for _, s := range slips {
		if targets, _ := d.book.Match(s.matched); len(s.unasked(targets)) > 0 {
			return errUnasked
		}
	}
	return nil
}
