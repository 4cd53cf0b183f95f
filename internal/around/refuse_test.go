package around_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
)

// T37: a verdict of a hook means what it means from a receiver; one that no receiver
// could give is an ordinary failure that says so.
func TestARefusalIsReadAsAReceiversVerdictOrSaysWhyNot(t *testing.T) {
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	for name, c := range map[string]struct {
		given  event.Verdict
		ruling event.Ruling
		class  event.Class
		says   string
	}{
		"permanent":            {event.Verdict{Ruling: event.Permanent, Reason: "no such tenant"}, event.Permanent, event.ClassPermanent, "no such tenant"},
		"retry-after":          {event.Verdict{Ruling: event.RetryAfter, After: time.Minute, Uncounted: true, Reason: "busy"}, event.RetryAfter, event.ClassRetryAfter, "busy"},
		"retry-after, none":    {event.Verdict{Ruling: event.RetryAfter}, event.RetryAfter, event.ClassRetryAfter, "a hook"},
		"retry-after, before":  {event.Verdict{Ruling: event.RetryAfter, After: -1}, event.Failure, event.ClassAround, "before now"},
		"not yet":              {event.Verdict{Ruling: event.NotYet, Until: later, Reason: "embargo"}, event.NotYet, "", "embargo"},
		"not yet, past":        {event.Verdict{Ruling: event.NotYet, Until: time.Now().Add(-time.Second), Reason: "embargo"}, event.Failure, event.ClassAround, "until when within the next ten years: embargo"},
		"not yet, never":       {event.Verdict{Ruling: event.NotYet}, event.Failure, event.ClassAround, "until when"},
		"not yet, too far":     {event.Verdict{Ruling: event.NotYet, Until: time.Now().Add(2 * event.MaxDuration)}, event.Failure, event.ClassAround, "ten years"},
		"failure":              {event.Verdict{Ruling: event.Failure, Class: "made up"}, event.Failure, event.ClassAround, "a hook"},
		"success":              {event.Verdict{Ruling: event.Success}, event.Failure, event.ClassAround, `"success"`},
		"nothing":              {event.Verdict{}, event.Failure, event.ClassAround, `""`},
		"something of its own": {event.Verdict{Ruling: "maybe"}, event.Failure, event.ClassAround, `"maybe"`},
	} {
		recorded, _ := attempt(around.Stack(refusing(fmt.Errorf("wrapped: %w", around.Refuse(c.given)))), func(context.Context) event.Verdict {
			t.Errorf("%s: the receiver ran", name)
			return event.Verdict{}
		})
		v := recorded[0]
		if len(recorded) != 1 || v.Ruling != c.ruling || v.Class != c.class || !strings.Contains(v.Reason, c.says) || v.StartedAt.IsZero() {
			t.Errorf("%s: got %+v", name, v)
		}
		if v.Ruling == event.NotYet && !v.Until.Equal(later) || v.Ruling == event.RetryAfter && v.Uncounted != c.given.Uncounted {
			t.Errorf("%s: got %+v", name, v)
		}
	}
}

// Every hook that was entered exits, once, in reverse, however deep the one that refuses.
func TestHooksThatWereEnteredExitWhateverRefusesBehindThem(t *testing.T) {
	for name, refuse := range map[string]around.Hook{
		"refuses": refusing(errors.New("no")),
		"panics":  around.HookFunc(func(context.Context, event.Context) (context.Context, around.Exit, error) { panic("no") }),
	} {
		var story []string
		hook := around.Stack(told("a", &story), around.Stack(told("b", &story), around.Stack(told("c", &story), refuse, told("never", &story))), told("never", &story))
		recorded, _ := attempt(hook, good)
		if want := []string{"a enters", "b enters", "c enters", "c exits", "b exits", "a exits"}; !slices.Equal(story, want) {
			t.Errorf("%s: %v", name, story)
		}
		if len(recorded) != 1 || recorded[0].Ruling != event.Failure {
			t.Errorf("%s: recorded %+v", name, recorded)
		}
	}
}

// An Exit beside an error is that hook's own clean-up.
func TestAnExitBesideAnErrorIsCalled(t *testing.T) {
	exited := 0
	attempt(around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
		return ctx, func(event.Result) error { exited++; return nil }, errors.New("half way")
	}), good)
	if exited != 1 {
		t.Errorf("exited %d times", exited)
	}
}

func TestAHookWithoutAContextOfItsOwnKeepsTheCallers(t *testing.T) {
	hook := around.HookFunc(func(context.Context, event.Context) (context.Context, around.Exit, error) { return nil, nil, nil })
	attempt(around.Stack(hook, hook), func(ctx context.Context) event.Verdict {
		if ctx == nil {
			t.Error("no context")
		}
		return event.Verdict{Ruling: event.Success}
	})
}

// Exit is called, and told that nothing was recorded; the process goes on.
func TestAPanicWhileRecordingIsNotTheEndOfTheProcess(t *testing.T) {
	var log bytes.Buffer
	var results []event.Result
	hook := around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
		return ctx, func(r event.Result) error { results = append(results, r); return nil }, nil
	})
	r := around.Attempt(t.Context(), hook, event.Context{Receiver: "k"}, slog.New(slog.NewTextHandler(&log, nil)), good,
		func(context.Context, event.Verdict) event.Result { panic("disk on fire") })
	if r.Recorded || len(results) != 1 || results[0].Recorded || results[0].Receiver != "k" {
		t.Errorf("got %+v, told %+v", r, results)
	}
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "disk on fire") {
		t.Errorf("log: %s", log.String())
	}
}
