package moment_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/moment"
	"github.com/eventsvc/eventsvc/internal/webhook"
)

// one is a book of one address.
type one struct{ target *event.Target }

func (o one) Target(event.TargetID) *event.Target { return o.target }

// hold is a receiver that says what arrives and answers once it may.
func hold(t testing.TB) (to *event.Target, came chan string, may chan int) {
	came, may = make(chan string, 10_000), make(chan int, 10_000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		came <- r.Header.Get("Webhook-Id")
		select {
		case status := <-may:
			w.WriteHeader(status)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	return &event.Target{ID: 1, URL: s.URL, Receiver: &event.Receiver{Key: "r", Mode: event.OnCommit, Timeout: 20 * time.Second, Format: event.FormatRaw}}, came, may
}

func begin(t testing.TB, to *event.Target, grace time.Duration) (after *moment.After, stop func()) {
	t.Helper()
	courier := webhook.New(webhook.Options{Policy: webhook.NewPolicy(netip.MustParsePrefix("127.0.0.0/8"))})
	after = moment.NewAfter(courier, one{to}, grace, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { after.Run(ctx); close(done) }()
	stop = func() { cancel(); <-done; courier.CloseIdle() }
	t.Cleanup(stop)
	return after, stop
}

func tell(after *moment.After, to *event.Target, times int) {
	for range times {
		after.Tell(&event.Event{ID: event.NewID(time.Now()), Type: "a.b", Data: []byte("1")}, []*event.Target{to})
	}
}

func await(t testing.TB, came <-chan string, n int) {
	t.Helper()
	late := time.After(30 * time.Second)
	for i := range n {
		select {
		case <-came:
		case <-late:
			t.Fatalf("%d of %d requests came", i, n)
		}
	}
}

func TestWhatFindsNoPlaceIsDroppedAndCounted(t *testing.T) {
	to, came, may := hold(t)
	after, stop := begin(t, to, time.Minute)
	tell(after, to, moment.AtOnce+moment.MaxWaiting+5)
	if got := after.Counts(); got != (moment.Counts{Dropped: 5}) {
		t.Errorf("with every place taken: %+v", got)
	}
	await(t, came, moment.AtOnce)
	select {
	case <-came:
		t.Error("more are told at once than may be")
	default:
	}
	for range moment.AtOnce + moment.MaxWaiting {
		may <- 200
	}
	await(t, came, moment.MaxWaiting)
	stop()
	if got := after.Counts(); got != (moment.Counts{OK: moment.AtOnce + moment.MaxWaiting, Dropped: 5}) {
		t.Errorf("in the end: %+v", got)
	}
}

func TestAStopDropsWhatWaitsAndLetsEndWhatIsUnderWay(t *testing.T) {
	to, came, may := hold(t)
	after, stop := begin(t, to, time.Minute)
	tell(after, to, moment.AtOnce+3)
	await(t, came, moment.AtOnce)
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	for after.Counts().Dropped < 3 {
		select {
		case <-stopped:
			t.Fatal("it stopped with requests under way")
		case <-time.After(time.Millisecond):
		}
	}
	for range moment.AtOnce {
		may <- 204
	}
	<-stopped
	tell(after, to, 1)
	if got := after.Counts(); got != (moment.Counts{OK: moment.AtOnce, Dropped: 4}) {
		t.Errorf("got %+v", got)
	}
}

func TestAStopWaitsNoLongerThanItsGrace(t *testing.T) {
	to, came, _ := hold(t)
	after, stop := begin(t, to, time.Millisecond)
	tell(after, to, 2)
	await(t, came, 2)
	stop()
	if got := after.Counts(); got != (moment.Counts{Failed: 2}) {
		t.Errorf("got %+v", got)
	}
}

// T80.
func TestOneThatFailsKeepsNoOtherFromBeingTold(t *testing.T) {
	to, came, may := hold(t)
	after, stop := begin(t, to, time.Minute)
	paused := *to
	paused.Paused = true
	for _, status := range []int{500, 410, 200} {
		may <- status
		tell(after, to, 1)
		await(t, came, 1)
	}
	tell(after, &paused, 1)
	stop()
	if got := after.Counts(); got != (moment.Counts{OK: 1, Failed: 2, Dropped: 1}) {
		t.Errorf("got %+v", got)
	}
}
