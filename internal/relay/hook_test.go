package relay_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// P3: the end that a hook sets is the receiver's, and not the record's.
func TestAnAttemptThatOutlivesItsHooksDeadlineIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		hurried := around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			return ctx, func(event.Result) error { cancel(); return nil }, nil
		})
		s := start(t, m, func(ctx context.Context, c *event.Claim) event.Verdict { <-ctx.Done(); return refuse(ctx, c) },
			func(o *relay.Options) { o.Hook = hurried })
		id := m.owe(1, 1, 1)[0]
		s.Look()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if m.status(id) != event.Dead || s.log.count("failed delivery") != 1 {
			t.Errorf("%q; the log:\n%s", m.status(id), s.log.text.String())
		}
	})
}

// fragile is a log that panics where a line says what it must not.
type fragile struct{ slog.Handler }

func (f fragile) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "failed delivery") {
		panic("the log is full")
	}
	return f.Handler.Handle(ctx, r)
}

func TestWhatPanicsAfterARecordLeavesItAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(receiver("k"))
		var seen []event.Result
		sees := around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
			return ctx, func(r event.Result) error { seen = append(seen, r); return nil }, nil
		})
		s := start(t, m, refuse, func(o *relay.Options) { o.Hook, o.Log = sees, slog.New(fragile{o.Log.Handler()}) })
		id := m.owe(1, 1, 1)[0]
		s.Look()
		synctest.Wait()
		if m.status(id) != event.Dead || len(seen) != 1 || !seen[0].Recorded || s.log.count("the record stands") != 1 {
			t.Errorf("%q, seen %+v; the log:\n%s", m.status(id), seen, s.log.text.String())
		}
	})
}
