package task_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/task"
)

const lane = "mail.bulk" // a dot is no end of a token here

// log is a log that can be read while it is written.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

func serve(t *testing.T, dir string, port int) *task.Server {
	t.Helper()
	s, err := task.StartServer(dir, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func connect(t *testing.T, url string) (*task.Backend, *log) {
	t.Helper()
	l := &log{}
	b, err := task.Connect(url, slog.New(slog.NewTextHandler(l, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b, l
}

// publish sends until it is stored.
func publish(t *testing.T, b *task.Backend, m task.Message) {
	t.Helper()
	eventually(t, func() bool { return b.Publish(t.Context(), lane, m) == nil })
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(30 * time.Second); !holds(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it does not come to that")
		}
	}
}

// consume has a worker hear messages, until the test ends or stop is called.
func consume(t *testing.T, b *task.Backend, handle task.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.Consume(ctx, lane, handle); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func proof() task.Message {
	at := time.Date(2027, 1, 31, 12, 0, 0, 120_000, time.UTC) // its last digits are zeros
	return task.Message{Fence: event.Fence{Delivery: event.NewID(time.Now()), ClaimedAt: at}, By: 41, Target: 7}
}

func heard(t *testing.T, got <-chan task.Message) task.Message {
	t.Helper()
	select {
	case m := <-got:
		return m
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is heard")
		return task.Message{}
	}
}

// T13, T54: the fence comes through to the microsecond; the same claim published twice
// is one message, a new claim of the delivery is another.
func TestAProofComesThroughExactlyAndOnce(t *testing.T) {
	t.Parallel()
	b, _ := connect(t, serve(t, t.TempDir(), 0).URL())
	m := proof()
	again := m
	again.ClaimedAt = m.ClaimedAt.Add(time.Microsecond)
	for _, m := range []task.Message{m, m, again} {
		publish(t, b, m)
	}
	got := make(chan task.Message, 10)
	consume(t, b, func(_ context.Context, m task.Message) bool { got <- m; return true })
	for _, want := range []task.Message{m, again} {
		if h := heard(t, got); h.Delivery != want.Delivery || !h.ClaimedAt.Equal(want.ClaimedAt) || h.By != 41 || h.Target != 7 {
			t.Errorf("heard %+v, want %+v", h, want)
		}
	}
	publish(t, b, proof())
	heard(t, got)
	if len(got) != 0 {
		t.Errorf("%d more", len(got))
	}
}

// What could not be found out comes again.
func TestAMessageComesAgainUntilItsClaimWasLookedAt(t *testing.T) {
	t.Parallel()
	b, _ := connect(t, serve(t, t.TempDir(), 0).URL())
	got := make(chan task.Message, 10)
	n := 0
	consume(t, b, func(_ context.Context, m task.Message) bool { n++; got <- m; return n == 2 })
	m := proof()
	publish(t, b, m)
	for range 2 {
		if heard(t, got).Delivery != m.Delivery {
			t.Error("another one comes")
		}
	}
}

// T50: what is no message of ours is told of and gone.
func TestAMessageOfAnotherShapeRunsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), 0)
	b, said := connect(t, s.URL())
	got := make(chan task.Message, 10)
	consume(t, b, func(_ context.Context, m task.Message) bool { got <- m; return true })
	publish(t, b, proof())
	heard(t, got)
	conn, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	id := proof().Delivery.Text(event.DeliveryPrefix)
	for _, text := range []string{``, `{}`, `[]`, id, `{"delivery_id":"` + id + `"}`,
		`{"delivery_id":"` + id + `","claimed_by":0,"claimed_at":"2027-01-31T12:00:00.000123Z"}`,
		`{"delivery_id":"` + id + `","claimed_by":1,"claimed_at":"2027-01-31T12:00:00.123Z"}`,
		`{"delivery_id":"` + id + `","claimed_by":1,"claimed_at":"2027-01-31T12:00:00.000123Z","run":true}`,
		`{"delivery_id":"evt_01jxkg2c8zf3v9e4m6r7t8w9yb","claimed_by":1,"claimed_at":"2027-01-31T12:00:00.000123Z"}`} {
		if _, err := js.Publish(t.Context(), "eventsvc.task.mail%2Ebulk", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	last := proof()
	publish(t, b, last)
	if m := heard(t, got); m.Delivery != last.Delivery {
		t.Errorf("heard %+v", m)
	}
	if !said.has("no proof of a claim") {
		t.Error("nothing is said of them")
	}
	eventually(t, func() bool {
		info, err := js.Stream(t.Context(), "EVENTSVC_TASKS")
		if err != nil {
			return false
		}
		state, err := info.Info(t.Context())
		return err == nil && state.State.Msgs == 0
	})
}

// A server that is stopped, or comes back with nothing, or whose stream is deleted, is
// used again without anybody's doing.
func TestWhatIsLostOfNATSIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, dir, 0)
	url := s.URL()
	b, _ := connect(t, url)
	got := make(chan task.Message, 100)
	consume(t, b, func(_ context.Context, m task.Message) bool { got <- m; return true })
	round := func() {
		t.Helper()
		m := proof()
		publish(t, b, m)
		// One that was published into what is wiped is lost, as may be: its lease brings it back.
		for heard(t, got).Delivery != m.Delivery {
		}
	}
	round()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "EVENTSVC_TASKS"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	round()
	s.Stop()
	if err := b.Publish(t.Context(), lane, proof()); err == nil {
		t.Error("published to a server that is not there")
	}
	var port int
	for _, c := range url[strings.LastIndex(url, ":")+1:] {
		port = port*10 + int(c-'0')
	}
	if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, port)
	round()
}

// P9: what was fetched and not looked at is another's at once.
func TestAWorkerThatStopsGivesBackWhatItFetched(t *testing.T) {
	t.Parallel()
	url := serve(t, t.TempDir(), 0).URL()
	first, _ := connect(t, url)
	second, _ := connect(t, url)
	for range 5 {
		publish(t, first, proof())
	}
	busy := make(chan struct{})
	var once sync.Once
	stop := consume(t, first, func(ctx context.Context, _ task.Message) bool {
		once.Do(func() { close(busy) })
		<-ctx.Done()
		return false
	})
	<-busy
	stop()
	got := make(chan task.Message, 10)
	consume(t, second, func(_ context.Context, m task.Message) bool { got <- m; return true })
	began := time.Now()
	for range 5 {
		heard(t, got)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("after %s", took)
	}
}

func TestAURLThatCannotBeUsedIsRefusedWithoutItsSecret(t *testing.T) {
	if _, err := task.Connect("nats://user:hunter2@[::1", slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
