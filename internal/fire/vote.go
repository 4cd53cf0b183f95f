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
// stored. Reason is never anything that was answered over HTTP.
type VetoError struct{ Receiver, Reason string }

// Error says so.
func (e VetoError) Error() string {
	return fmt.Sprintf("receiver %s did not agree: %s", e.Receiver, e.Reason)
}

// errUnasked says that an inline receiver has come up since an event's were asked.
var errUnasked = errors.New("an inline receiver was not asked")

// errMovedOn is [errUnasked] where functions were called: what they did was undone.
var errMovedOn = fmt.Errorf("the registry has moved on: %w", errUnasked)

// maxVotes bounds how often new inline receivers are asked about one event.
const maxVotes = 4

// inline are the inline receivers among targets. What is suppressed concerns nobody, and
// nobody may veto the service's own events.
func (s *slip) inline(targets []*event.Target) (to []*event.Target) {
	if s.draft.Suppress != nil || strings.HasPrefix(s.draft.Type, event.ReservedTypes) {
		return nil
	}
	for _, t := range targets {
		if t.Receiver.Mode == event.Inline {
			to = append(to, t)
		}
	}
	return to
}

// unasked are the inline receivers among targets that have not agreed yet, and will not be
// called in the slip's own transaction.
func (s *slip) unasked(targets []*event.Target) []*event.Target {
	return slices.DeleteFunc(s.inline(targets), func(t *event.Target) bool {
		return slices.Contains(s.asked, t.ID) || s.alone && t.Receiver.Function != ""
	})
}

// functions are those among inline receivers.
func functions(targets []*event.Target) []*event.Target {
	return slices.DeleteFunc(targets, func(t *event.Target) bool { return t.Receiver.Function == "" })
}

// again is a slip of the same event, for another try.
func (s *slip) again() *slip {
	next := newSlip(s.draft, s.kind)
	next.id, next.spent, next.asked, next.alone = s.id, s.spent, s.asked, s.alone
	return next
}

// vote asks the inline receivers of events, all at once and outside of any transaction of
// the database. It answers with the first veto, as a [PartError]. What this process knows
// of them may be old, so the registry is read first: after a veto no commit would do so.
// Functions have their say in the transaction, which is the event's alone: see alone.go.
func (d *Desk) vote(ctx context.Context, slips []*slip) error {
	if err := d.book.Read(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	asked, vetoes := make([][]*event.Target, len(slips)), make([][]error, len(slips))
	for i, s := range slips {
		targets, _ := d.book.Match(s.matched)
		s.alone = len(functions(s.inline(targets))) > 0
		asked[i] = s.unasked(targets)
		vetoes[i] = make([]error, len(asked[i]))
		e := s.fact()
		e.RecordedAt = s.id.Time() // as near as can be said yet
		for j, t := range asked[i] {
			all.Go(func() { vetoes[i][j] = d.veto(ctx, d.poll, &e, t) })
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
func (d *Desk) veto(ctx context.Context, poll Poll, e *event.Event, t *event.Target) error {
	if t.Paused {
		return VetoError{t.Receiver.Key, "it is paused, and so cannot agree"}
	}
	v := poll(ctx, e, t)
	if v.Ruling == event.Success {
		return nil
	}
	if t.Receiver.Function != "" && (v.Class == event.ClassConnect || ctx.Err() != nil) { // the whole has a bound too
		return fmt.Errorf("%w: %s was cut off (%s)", ErrBusy, t.Receiver.Function, v.Class)
	}
	d.log.InfoContext(ctx, "an inline receiver did not agree to an event, which is not stored", "receiver", t.Receiver.Key, "event", e.ID.Text(event.EventPrefix), "class", v.Class, "why", v.Reason)
	return VetoError{t.Receiver.Key, reasonOf(t, &v)}
}

// reasonOf is what a producer may know of why.
func reasonOf(t *event.Target, v *event.Verdict) string {
	switch {
	case t.Receiver.Function != "" && v.Class != event.ClassDecode && v.Class != event.ClassPanic:
		return v.Reason
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
