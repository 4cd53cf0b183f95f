package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// database is a server of the story's own, to stop and start.
type database struct {
	*pg.Server
	options pg.ServerOptions
}

func ownDatabase(t testing.TB) *database {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binaries, err := pg.FindBinaries(t.Context())
	if err != nil {
		t.Skipf("there is no PostgreSQL on this machine to stop and start: %v", err)
	}
	db := &database{options: pg.ServerOptions{Dir: dir, Binaries: binaries, Log: slog.New(slog.DiscardHandler), Durable: true, DieWithParent: true}}
	db.begin(t)
	t.Cleanup(func() { db.end() })
	return db
}

func (db *database) begin(t testing.TB) {
	t.Helper()
	s, err := pg.StartServer(t.Context(), db.options)
	if err != nil {
		t.Fatal(err)
	}
	db.Server = s
}

// end stops the server in good order.
func (db *database) end() { db.Stop(context.Background()) }

// crash stops it without: what was under way is left to recovery.
func (db *database) crash() {
	impatient, cancel := context.WithCancel(context.Background())
	cancel()
	db.Stop(impatient)
}

// run runs a statement, past whatever stands before the database.
func run(t testing.TB, url, sql string) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["default_transaction_read_only"] = "off"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// callers fire without a pause, each its key until that is answered 201, until they are
// stopped; and they watch what arrives.
type callers struct {
	wg      sync.WaitGroup
	stopped chan struct{}
	unwatch func()

	mu       sync.Mutex
	accepted map[string]bool // ids of deliveries
	arrived  map[string]int  // requests by id
	refused  map[string]bool // answers that were not 201
}

// load begins n callers, whose keys begin with a name.
func (p *process) load(t testing.TB, n int, name string, s *shop) *callers {
	c := &callers{stopped: make(chan struct{}), accepted: map[string]bool{}, arrived: map[string]int{}, refused: map[string]bool{}}
	for i := range n {
		c.wg.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-c.stopped:
					return
				default:
					c.insist(p, fmt.Sprint(name, "-", i, "-", k))
				}
			}
		})
	}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() { c.watch(s, ended); close(watched) }()
	c.unwatch = sync.OnceFunc(func() { close(ended); <-watched })
	t.Cleanup(func() { c.stop(); c.unwatch() })
	return c
}

func (c *callers) watch(s *shop, ended <-chan struct{}) {
	for {
		select {
		case w := <-s.got:
			c.mu.Lock()
			c.arrived[w.header.Get("Webhook-Id")]++
			c.mu.Unlock()
		case <-ended:
			return
		}
	}
}

// insist fires a key until it is accepted, or there is no hope.
func (c *callers) insist(p *process, key string) {
	for late := time.After(time.Minute); ; {
		a, err := p.try("POST", "/v1/events", `{"type":"a.b","data":1}`, "Idempotency-Key", key)
		c.mu.Lock()
		accepted := err == nil && a.status == 201
		if accepted {
			c.accepted[a.at("deliveries.0.id")] = true
		} else {
			c.refused[fmt.Sprint(a.status, " ", a.at("code"), " retry after ", a.header.Get("Retry-After"), " ", err)] = true
		}
		c.mu.Unlock()
		if accepted {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond): // sooner than it was asked to
		case <-late:
			return
		}
	}
}

// more waits until n more fires were accepted, and as many more webhooks arrived.
func (c *callers) more(t testing.TB, n int) {
	t.Helper()
	accepted, arrived := c.counts()
	eventually(t, func() bool { now, _ := c.counts(); return now >= accepted+n }, func() string { return fmt.Sprintf("fires are not accepted: %v", c.answers()) })
	eventually(t, func() bool { _, now := c.counts(); return now >= arrived+n }, func() string { return "webhooks do not arrive" })
}

func (c *callers) counts() (accepted, arrived int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.accepted), len(c.arrived)
}

// answers are those that were not 201.
func (c *callers) answers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.refused))
}

// stop lets each caller finish its key.
func (c *callers) stop() {
	select {
	case <-c.stopped:
	default:
		close(c.stopped)
	}
	c.wg.Wait()
}

// delivered stops the callers and waits until a webhook has come of everything that was
// accepted. It fails for callers that were refused in another way than with 503 and when
// to ask again.
func (c *callers) delivered(t testing.TB) {
	t.Helper()
	c.stop()
	for _, a := range c.answers() {
		if !strings.HasPrefix(a, "503 service-unavailable retry after 1 ") && !strings.HasPrefix(a, "409 idempotency-key-in-use retry after 1 ") {
			t.Errorf("a fire was refused with %s", a)
		}
	}
	eventually(t, func() bool { return c.missing() == 0 }, func() string { return fmt.Sprintf("%d accepted events never arrived", c.missing()) })
	c.unwatch()
}

// nothingOwed waits until everything is recorded.
func (p *process) nothingOwed(t testing.TB) {
	t.Helper()
	for _, status := range []string{"pending", "claimed", "failed"} {
		eventually(t, func() bool { return p.call(t, "GET", "/v1/deliveries?status="+status, "").list("data") == 0 }, func() string { return "some remain " + status })
	}
}

// requests is how many webhooks arrived.
func (c *callers) requests() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.arrived {
		n += times
	}
	return n
}

func (c *callers) missing() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.accepted {
		if c.arrived[id] == 0 {
			n++
		}
	}
	return n
}
