package around_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
)

// told is a hook that writes down when it is called.
func told(name string, story *[]string) around.Hook {
	return around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
		*story = append(*story, name+" enters")
		return ctx, func(event.Result) error { *story = append(*story, name+" exits"); return nil }, nil
	})
}

func ExampleStack() {
	say := func(name string) around.Hook {
		return around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
			fmt.Println(name, "enters")
			return ctx, func(r event.Result) error { fmt.Println(name, "exits, recorded:", r.Recorded); return nil }, nil
		})
	}
	around.Attempt(context.Background(), around.Stack(say("outer"), say("inner")), event.Context{}, slog.New(slog.DiscardHandler),
		func(context.Context) event.Verdict {
			fmt.Println("the receiver runs")
			return event.Verdict{Ruling: event.Success}
		},
		func(context.Context, event.Verdict) event.Result {
			fmt.Println("the outcome is recorded")
			return event.Result{Recorded: true}
		})
	// Output:
	// outer enters
	// inner enters
	// the receiver runs
	// the outcome is recorded
	// inner exits, recorded: true
	// outer exits, recorded: true
}

// attempt runs one attempt and gives the verdict that was recorded, how often, and the
// log.
func attempt(hook around.Hook, run func(context.Context) event.Verdict) (recorded []event.Verdict, log string) {
	var lines bytes.Buffer
	around.Attempt(context.Background(), hook, event.Context{}, slog.New(slog.NewTextHandler(&lines, nil)), run,
		func(_ context.Context, v event.Verdict) event.Result {
			recorded = append(recorded, v)
			return event.Result{Verdict: v, Recorded: true}
		})
	return recorded, lines.String()
}

func good(context.Context) event.Verdict { return event.Verdict{Ruling: event.Success} }

func refusing(err error) around.Hook {
	return around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) { return ctx, nil, err })
}

func TestAHookThatRefusesIsAFailedAttemptAndTheReceiverDoesNotRun(t *testing.T) {
	var story []string
	hook := around.Stack(told("outer", &story), refusing(errors.New("no tenant")), told("never", &story))
	recorded, _ := attempt(hook, func(context.Context) event.Verdict { t.Error("the receiver ran"); return event.Verdict{} })
	if len(recorded) != 1 || recorded[0].Ruling != event.Failure || recorded[0].Class != event.ClassAround || recorded[0].Reason != "no tenant" || recorded[0].StartedAt.IsZero() {
		t.Errorf("recorded %+v", recorded)
	}
	if got := strings.Join(story, ", "); got != "outer enters, outer exits" {
		t.Errorf("got %s", got)
	}
}

func TestAnExitThatFailsOrPanicsChangesNothingAndIsLogged(t *testing.T) {
	var story []string
	failing := func(exit around.Exit) around.Hook {
		return around.HookFunc(func(ctx context.Context, _ event.Context) (context.Context, around.Exit, error) {
			return ctx, exit, nil
		})
	}
	hook := around.Stack(told("outer", &story), failing(func(event.Result) error { return errors.New("exporter down") }), failing(func(event.Result) error { panic("boom") }))
	recorded, log := attempt(hook, good)
	if len(recorded) != 1 || recorded[0].Ruling != event.Success {
		t.Errorf("recorded %+v", recorded)
	}
	if !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "exporter down") || !strings.Contains(log, "boom") {
		t.Errorf("the log is %s", log)
	}
	if got := strings.Join(story, ", "); got != "outer enters, outer exits" {
		t.Errorf("got %s", got)
	}
}

func TestAPanicIsAFailedAttemptOfItsClass(t *testing.T) {
	panics := around.HookFunc(func(context.Context, event.Context) (context.Context, around.Exit, error) { panic("in the hook") })
	for name, c := range map[string]struct {
		hook around.Hook
		run  func(context.Context) event.Verdict
		says string
	}{
		"receiver": {around.Stack(), func(context.Context) event.Verdict { panic("in the receiver") }, "in the receiver"},
		"hook":     {panics, good, "in the hook"},
	} {
		recorded, _ := attempt(c.hook, c.run)
		if len(recorded) != 1 || recorded[0].Class != event.ClassPanic || recorded[0].Ruling != event.Failure || !strings.Contains(recorded[0].Reason, c.says) {
			t.Errorf("%s: recorded %+v", name, recorded)
		}
	}
}

func about() event.Context {
	return event.Context{DeliveryID: event.NewID(time.Now()), EventID: event.NewID(time.Now()), Type: "order.placed", Receiver: "shop.mail", Attempt: 2,
		WebhookID: "dlv_1", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
}

func TestEachAttemptIsASpanLinkedToTheEventsCreation(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	hook, err := around.Builtin(provider, metricnoop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]event.Verdict{
		"good": {Ruling: event.Success, HTTPStatus: 200},
		"bad":  {Ruling: event.Failure, Class: event.ClassHTTP5xx, Reason: "answered 500", HTTPStatus: 500},
		"not":  {Ruling: event.NotYet, Until: time.Now()},
	}
	parent, outer := provider.Tracer("test").Start(context.Background(), "outer")
	defer outer.End()
	for name, v := range verdicts {
		exporter.Reset()
		d := about()
		around.Attempt(parent, hook, d, slog.New(slog.DiscardHandler), func(ctx context.Context) event.Verdict {
			if !trace.SpanContextFromContext(ctx).IsValid() {
				t.Error("the receiver runs outside the span")
			}
			return v
		}, func(_ context.Context, v event.Verdict) event.Result {
			if len(exporter.GetSpans()) != 0 {
				t.Error("the span ended before the outcome was recorded")
			}
			s := event.Settle(&event.Claim{MaxAttempts: 9}, event.Terms{}, &v, 0, 0)
			return event.Result{Context: d, Verdict: v, Settlement: s, Recorded: true}
		})
		spans := exporter.GetSpans()
		if len(spans) != 1 {
			t.Fatalf("%s: %d spans", name, len(spans))
		}
		s := spans[0]
		if s.Name != "process deliveries" || s.SpanKind != trace.SpanKindConsumer || s.Parent.IsValid() || len(s.Links) != 1 ||
			s.Links[0].SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s: got %+v", name, s)
		}
		got := map[attribute.Key]string{}
		for _, a := range s.Attributes {
			got[a.Key] = a.Value.String()
		}
		for key, want := range map[attribute.Key]string{"messaging.system": "eventsvc", "messaging.operation.type": "process", "messaging.destination.name": "order.placed",
			"messaging.destination.subscription.name": "shop.mail", "messaging.message.id": "dlv_1", "eventsvc.attempt": "2", "eventsvc.delivery.id": d.DeliveryID.Text(event.DeliveryPrefix)} {
			if got[key] != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], want)
			}
		}
		if failed := s.Status.Code == codes.Error; failed != (name == "bad") || failed && got["error.type"] != "http_5xx" {
			t.Errorf("%s: status %v, error.type %q", name, s.Status, got["error.type"])
		}
	}
}

func TestAnUnreadableTraceparentIsNoLinkAndNoError(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	hook := around.Trace(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	d := about()
	d.TraceParent = "nonsense"
	_, exit, err := hook.Enter(context.Background(), d)
	if err != nil || exit(event.Result{Recorded: true}) != nil || len(exporter.GetSpans()[0].Links) != 0 {
		t.Errorf("got %v, %+v", err, exporter.GetSpans())
	}
}

func TestALostClaimEndsItsSpanInError(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	_, exit, _ := around.Trace(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))).Enter(context.Background(), about())
	exit(event.Result{Verdict: event.Verdict{Ruling: event.Success}})
	if s := exporter.GetSpans()[0]; s.Status.Code != codes.Error {
		t.Errorf("got %+v", s.Status)
	}
}

func TestEveryLineOfAnAttemptCarriesItsIDs(t *testing.T) {
	var lines bytes.Buffer
	log := slog.New(around.LogHandler(slog.NewTextHandler(&lines, nil))).With("a", 1)
	d := about()
	d.Target = "eu"
	ctx, _, _ := around.Log().Enter(context.Background(), d)
	log.InfoContext(ctx, "inside")
	log.Info("outside")
	inside, outside, _ := strings.Cut(lines.String(), "\n")
	for _, part := range []string{"delivery=" + d.DeliveryID.Text(event.DeliveryPrefix), "event=" + d.EventID.Text(event.EventPrefix), "receiver=shop.mail", "attempt=2", "target=eu", "a=1"} {
		if !strings.Contains(inside, part) {
			t.Errorf("%s lacks %s", inside, part)
		}
	}
	if strings.Contains(outside, "delivery=") {
		t.Errorf("got %s", outside)
	}
}

func TestAttemptsAreCountedByWhatTheyCameTo(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	hook, err := around.Meter(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, exit, _ := hook.Enter(t.Context(), about())
		exit(event.Result{Recorded: true, Verdict: event.Verdict{Duration: time.Second}, Settlement: event.Settlement{Status: event.Failed, Outcome: event.OutcomeFailed, Class: event.ClassTimeout}})
	}
	hook.Enter(t.Context(), about()) // and is under way
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range got.ScopeMetrics[0].Metrics {
		found[m.Name] = true
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "eventsvc.attempts.active" && sum.DataPoints[0].Value != 1 {
			t.Errorf("%d are under way", sum.DataPoints[0].Value)
		}
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "eventsvc.deliveries.attempts" {
			want := attribute.NewSet(attribute.String("outcome", "failed"), attribute.String("status", "failed"), attribute.String("class", "timeout"))
			if len(sum.DataPoints) != 1 || sum.DataPoints[0].Value != 3 || !sum.DataPoints[0].Attributes.Equals(&want) {
				t.Errorf("got %+v", sum.DataPoints)
			}
		}
	}
	if !found["eventsvc.deliveries.attempts"] || !found["eventsvc.attempt.duration"] || !found["eventsvc.attempts.active"] {
		t.Errorf("got %v", found)
	}
}

func BenchmarkBuiltinWithoutTracing(b *testing.B) {
	hook, err := around.Builtin(noop.NewTracerProvider(), metricnoop.NewMeterProvider())
	if err != nil {
		b.Fatal(err)
	}
	d, log := about(), slog.New(slog.DiscardHandler)
	b.ReportAllocs()
	for b.Loop() {
		around.Attempt(context.Background(), hook, d, log, good, func(_ context.Context, v event.Verdict) event.Result { return event.Result{Recorded: true} })
	}
}
