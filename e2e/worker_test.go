package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/task"
)

// broker is a NATS server that can be stopped, wiped and started again where it was.
type broker struct {
	*task.Server
	dir string
	url string
}

func startBroker(t testing.TB) *broker {
	t.Helper()
	b := &broker{dir: t.TempDir()}
	b.start(t, 0)
	b.url = b.URL()
	t.Cleanup(func() { b.Stop() })
	return b
}

func (b *broker) start(t testing.TB, port int) {
	t.Helper()
	var err error
	if b.Server, err = task.StartServer(b.dir, port); err != nil {
		t.Fatal(err)
	}
}

// wipe loses everything that was handed over.
func (b *broker) wipe(t testing.TB) {
	t.Helper()
	b.Stop()
	if err := os.RemoveAll(filepath.Join(b.dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	b.again(t)
}

func (b *broker) again(t testing.TB) {
	t.Helper()
	port, err := strconv.Atoi(b.url[strings.LastIndex(b.url, ":")+1:])
	if err != nil {
		t.Fatal(err)
	}
	b.start(t, port)
}

func (b *broker) env() []string { return []string{"EVENTSVC_NATS_URL=" + b.url} }

// The whole way: claimed by a relay, handed over, taken, attempted, recorded; again after
// a failure, with all that follows one, and each in the worker's process alone.
func TestAWorkerProcessRunsWhatARelayHandsOver(t *testing.T) {
	t.Parallel()
	url, nats := pgtest.URL(t), startBroker(t)
	p := start(t, url, nats.env(), "serve")
	told := open(t, nil)
	s := open(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(500)
		}
	})
	declared := p.declare(t, "import", `{"events":["import.*"],"site":"task","url":"`+s.URL+`","lane":"mail.bulk","backoff_base":"1ms","backoff_cap":"1ms","on_failure":{"url":"`+told.URL+`"}}`)
	if declared.at("site") != "task" {
		t.Errorf("declared as %s", declared.text)
	}
	worker := start(t, url, nats.env(), "worker", "--lane", "mail.bulk", "--worker-id", "tw1")
	id := p.fire(t, "k", `{"type":"import.asked","data":1}`).at("deliveries.0.id")
	d := p.settled(t, id, "succeeded")
	if d.at("attempts") != "2" || d.list("attempt_log") != 2 || d.at("attempt_log.0.class") != "http_5xx" || d.at("attempt_log.0.worker") != "tw1" || d.at("attempt_log.1.worker") != "tw1" {
		t.Errorf("got %s", d.text)
	}
	oracle, err := standardwebhooks.NewWebhook(declared.at("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w := s.next(t)
		if err := oracle.Verify(w.body, w.header); err != nil || w.header.Get("Webhook-Id") != id {
			t.Errorf("%v: %v", err, w.header)
		}
	}
	if len(s.got) != 0 {
		t.Errorf("%d requests more", len(s.got))
	}
	told.next(t)
	line := "receiver import failed delivery " + id + " on attempt 1 with http_5xx; the row is failed"
	if worker.log.await(t, line); strings.Contains(p.log.String(), line) {
		t.Error("the relay says so as well")
	}
	if code := worker.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("the worker ends with %d", code)
	}
}

// MQ-01: what NATS loses, after it has acknowledged it, is in the database still.
func TestAWipedStreamLosesNothing(t *testing.T) {
	t.Parallel()
	url, nats := pgtest.URL(t), startBroker(t)
	p := start(t, url, nats.env(), "serve")
	s := open(t, nil)
	p.declare(t, "import", `{"events":["import.*"],"site":"task","url":"`+s.URL+`"}`)
	var ids []string
	for i := range 20 {
		ids = append(ids, p.fire(t, strconv.Itoa(i), `{"type":"import.asked","data":1}`).at("deliveries.0.id"))
	}
	for _, id := range ids {
		p.settled(t, id, "claimed")
	}
	nats.wipe(t)
	start(t, url, nats.env(), "worker")
	lapse(t, url)
	for _, id := range ids {
		if d := p.settled(t, id, "succeeded"); d.list("attempt_log") != 1 {
			t.Errorf("got %s", d.text)
		}
	}
}

// A server that is away keeps nothing from coming back, and nobody else waiting.
func TestWhatIsFiredWhileNATSIsAwayIsDeliveredOnceItIsBack(t *testing.T) {
	t.Parallel()
	url, nats := pgtest.URL(t), startBroker(t)
	nats.Stop()
	p := start(t, url, nats.env(), "serve")
	start(t, url, nats.env(), "worker")
	s := open(t, nil)
	p.declare(t, "import", `{"events":["*"],"site":"task","url":"`+s.URL+`/task"}`)
	p.declare(t, "own", `{"events":["*"],"url":"`+s.URL+`/own"}`)
	fired := p.fire(t, "k", `{"type":"import.asked","data":1}`)
	task, own := fired.at("deliveries.0.id"), fired.at("deliveries.1.id")
	if fired.at("deliveries.0.receiver") == "own" {
		task, own = own, task
	}
	p.settled(t, own, "succeeded")
	p.log.await(t, "could not be handed over")
	if d := p.call(t, "GET", "/v1/deliveries/"+task, ""); d.at("attempts") != "0" || d.list("attempt_log") != 0 {
		t.Errorf("got %s", d.text)
	}
	nats.again(t)
	p.settled(t, task, "succeeded")
}

// T51: a service without NATS fails those deliveries alone, and runs them nowhere else.
func TestWithoutNATSOnlyDeliveriesForWorkersFail(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	s := open(t, nil)
	p.declare(t, "import", `{"events":["import.*"],"site":"task","url":"`+s.URL+`/task","backoff_base":"1h"}`)
	p.declare(t, "own", `{"events":["own.*"],"url":"`+s.URL+`/own"}`)
	id := p.fire(t, "k", `{"type":"import.asked","data":1}`).at("deliveries.0.id")
	p.settled(t, p.fire(t, "l", `{"type":"own.x","data":1}`).at("deliveries.0.id"), "succeeded")
	d := p.settled(t, id, "failed")
	if d.at("attempt_log.0.class") != "task" || !strings.Contains(d.at("last_error"), "EVENTSVC_NATS_URL") {
		t.Errorf("got %s", d.text)
	}
	s.next(t)
	if len(s.got) != 0 {
		t.Error("it was run by the relay")
	}
	for _, c := range []struct {
		env, args string
		code      int
	}{{"", "", 78}, {"EVENTSVC_NATS_URL=nats://[::1", "", 78}, {"EVENTSVC_NATS_URL=nats://127.0.0.1:1", "nowhere", 2}, {"EVENTSVC_NATS_URL=nats://127.0.0.1:1", "default=4", 2}} {
		args := []string{"worker"}
		if c.args != "" {
			args = append(args, "--lane", c.args)
		}
		w := spawn(t, t.TempDir(), []string{"DATABASE_URL=" + url, c.env}, args...)
		if code := w.exit(t); code != c.code {
			t.Errorf("%v %s: exit %d, %s", args, c.env, code, w.log)
		}
	}
}

// T46, DUP-08, P5: with several workers and many deliveries, each is asked for once.
func TestSeveralWorkerProcessesAskForEachDeliveryOnce(t *testing.T) {
	t.Parallel()
	url, nats := pgtest.URL(t), startBroker(t)
	p := start(t, url, nats.env(), "serve")
	relay := start(t, url, nats.env(), "relay")
	s := open(t, nil)
	p.declare(t, "webhooks", `{"events":["a.*"],"site":"task","fan_out":true}`)
	for _, name := range []string{"t1", "t2", "t3"} {
		if a := p.call(t, "PUT", "/v1/receivers/webhooks/targets/"+name, `{"url":"`+s.URL+`/`+name+`"}`); a.status != 201 {
			t.Fatalf("%d %s", a.status, a.text)
		}
	}
	for range 2 {
		start(t, url, nats.env(), "worker")
	}
	const n = 40
	var ids []string
	for i := range n {
		fired := p.fire(t, strconv.Itoa(i), `{"type":"a.b","data":1}`)
		for j := range fired.list("deliveries") {
			ids = append(ids, fired.at("deliveries."+strconv.Itoa(j)+".id"))
		}
	}
	times := map[string]int{}
	for range 3 * n {
		times[s.next(t).header.Get("Webhook-Id")]++
	}
	for _, id := range ids {
		p.settled(t, id, "succeeded")
		if times[id] != 1 {
			t.Errorf("%s was asked for %d times", id, times[id])
		}
	}
	if len(s.got) != 0 || strings.Contains(relay.log.String(), "ERROR") {
		t.Errorf("%d requests more", len(s.got))
	}
}

// dev has a NATS server and a worker of its own, for every lane as it comes up.
func TestDevRunsWorkersOverItsOwnNATS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := spawn(t, dir, []string{"DATABASE_URL=" + pgtest.URL(t)}, "dev", "--nats", "--listen", "127.0.0.1:0", "--data-dir", dir)
	p.awaitReady(t)
	s := open(t, nil)
	p.declare(t, "import", `{"events":["*"],"site":"task","url":"`+s.URL+`","lane":"bulk"}`)
	p.settled(t, p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id"), "succeeded")
}
