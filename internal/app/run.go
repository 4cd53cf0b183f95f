package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/around"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/function"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/moment"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/registry"
	"github.com/eventsvc/eventsvc/internal/relay"
	"github.com/eventsvc/eventsvc/internal/task"
	"github.com/eventsvc/eventsvc/internal/webhook"
)

// Role is which parts of the house a process runs.
type Role struct {
	API    bool
	Relay  bool
	Worker bool // takes what relays hand over
}

// Process is what a command makes of the house.
type Process struct {
	Config  Config
	Role    Role
	Version string
	// WorkerID names the process in claims and trails; "" is host, pid and a random part.
	WorkerID string
	// Lanes are those that the relay claims from; none is every lane.
	Lanes []Lane
	// Once ends the process when nothing that is due is left; Limit, unless 0, after so
	// many claims.
	Once  bool
	Limit int
	Log   *slog.Logger
	// Ready is called once the API listens, with its address.
	Ready func(address string)
	// Inbox, where given, makes the process its own receiver at /dev/inbox, which prints
	// there what arrives.
	Inbox io.Writer
}

// Run runs the process until the context ends, then stops it: readiness first, then
// claims, then attempts under way, then the API, then the pools.
func (p *Process) Run(ctx context.Context) error {
	tel, err := newTelemetry(ctx, p.Version, p.Log)
	if err != nil {
		return err
	}
	defer p.flush(tel)

	// Pools of their own, so that neither a busy relay nor lists and declarations that wait
	// can starve fires.
	pools, err := p.openPools(ctx, tel)
	if err != nil {
		return err
	}
	defer pools.close()
	if err := p.checkSchema(ctx, pools.api); err != nil {
		return err
	}

	h, err := p.furnish(ctx, pools, tel)
	if err != nil {
		return err
	}
	if h.tasks != nil {
		defer h.tasks.Close()
	}
	return h.run(ctx)
}

// house is a process's rooms, wired.
type house struct {
	*Process
	pools    *pools
	tel      *telemetry
	policy   *webhook.Policy
	courier  *webhook.Courier
	bell     *pg.Bell
	book     *registry.Book
	desk     *fire.Desk
	calls    functions
	after    *moment.After
	runner   *relay.Runner // makes attempts
	relay    *relay.Relay  // claims for it; nil where none runs
	remote   *relay.Remote // serves workers elsewhere, through it
	eager    *relay.Eager  // tries what was just fired here; nil where nothing is
	tasks    *task.Backend // hands over to worker processes; nil where there is none
	gauge    *gauge
	registry *registry.Registry
	ledger   *ledger.Ledger
	keys     *access.Keys
	watch    *ledger.Watch
	sentinel *sentinel
}

// furnish builds the house, with what it has to read for that.
func (p *Process) furnish(ctx context.Context, pools *pools, tel *telemetry) (*house, error) {
	takeForeign(p.Log)
	limited, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return p.build(limited, pools, tel)
}

func (p *Process) build(ctx context.Context, pools *pools, tel *telemetry) (*house, error) {
	keys, err := p.Config.sealKeys()
	if err != nil {
		return nil, err
	}
	sealer, err := registry.NewSealer(keys...)
	if err != nil {
		return nil, err
	}
	if !sealer.Sealing() {
		p.Log.Warn("signing secrets are stored unsealed; set EVENTSVC_SECRET_KEY to seal them")
	}
	hook, err := around.Builtin(tel.Traces, tel.Meters)
	if err != nil {
		return nil, err
	}
	h := &house{Process: p, pools: pools, tel: tel, gauge: &gauge{pool: pools.health}, policy: p.Config.policy()}
	h.courier = webhook.New(webhook.Options{Version: p.Version, Source: p.Config.Source, Policy: h.policy, Proxy: p.Config.proxy(), HTTP1: !p.Config.HTTP2})
	h.calls = functions{function.New(pools.function, pools.health, p.Log)}
	h.bell = pg.NewBell(pools.health, p.Log)
	h.registry = registry.New(pools.api, p.Config.registry(sealer, h.policy))
	h.book = h.registry.NewBook(p.Log)
	if err := h.book.Read(ctx); err != nil {
		return nil, err
	}
	// A process that was away for weeks finds no partition for what is fired today.
	if _, err := pg.MakePartitions(ctx, pools.health); err != nil {
		return nil, err
	}
	h.ledger, h.keys = ledger.New(pools.api), access.NewKeys(pools.api)
	h.watch = ledger.NewWatch(ledger.New(pools.health))
	h.after = moment.NewAfter(h.courier, h.book, time.Duration(p.Config.ShutdownGrace), p.Log)
	for _, figures := range []prometheus.Collector{figures{h.watch}, filterFigures{h.book}, onCommitFigures{h.after}} {
		if err := tel.figures.Register(figures); err != nil {
			return nil, fmt.Errorf("register the figures: %w", err)
		}
	}
	h.desk = fire.NewDesk(fire.Options{Pool: pools.fire, Book: h.book, Log: p.Log, Strict: p.Config.StrictTypes, Committed: h.wake, Eager: h.hasten, After: h.after.Tell, Poll: (&moment.Inline{Courier: h.courier, Book: h.book, Log: p.Log}).Ask, Calling: h.call, Sealer: sealer, Quota: p.Config.TenantQuota, Backlogs: ledger.New(pools.health).Backlogs})
	h.sentinel = newSentinel(h, p.Config.DisableAfterDead)
	if err := p.checkLanes(ctx, h.registry); err != nil {
		return nil, err
	}
	if err := h.checkKeys(ctx); err != nil {
		return nil, err
	}
	return h, p.hire(ctx, h, hook)
}

// hire gives the house what makes attempts, and, by its role, what claims for it.
func (p *Process) hire(ctx context.Context, h *house, hook around.Hook) error {
	owed := ledger.New(h.pools.relay)
	name := p.WorkerID
	if name == "" {
		name = workerName()
	}
	worker, err := owed.Enroll(ctx, name)
	if err != nil {
		return err
	}
	o := relay.Options{
		Worker: worker, Ledger: owed, Book: h.book, Courier: h.courier, Functions: h.calls, Results: h.desk, Hook: hook, Log: p.Log,
		Slots: p.Config.RelayWorkers, Batch: p.Config.Batch, Poll: time.Duration(p.Config.Poll),
		Grace: time.Duration(p.Config.ShutdownGrace), MaxClaims: p.Config.MaxClaims,
		Lanes: p.lanes(), Once: p.Once, Limit: p.Limit, Turned: h.sentinel.turned,
	}
	if p.Config.NATSURL != "" {
		if h.tasks, err = task.Connect(p.Config.NATSURL, p.Log); err != nil {
			return badSetting("EVENTSVC_NATS_URL", "%s", err)
		}
		o.Tasks = h.tasks
	}
	if p.Role.Relay {
		h.relay = relay.New(o)
		h.runner, h.gauge.relay = h.relay.Runner, h.relay
	} else {
		h.runner = relay.NewRunner(o)
	}
	h.remote = relay.NewRemote(h.runner, h.ledger, h.desk)
	if !p.Role.API {
		return nil
	}
	return h.hireEager(ctx, owed, name)
}

// lanes are the settings' bounds and the command's choice in one.
func (p *Process) lanes() relay.Lanes {
	bounds, err := ParseLanes(p.Config.Lanes)
	if err != nil {
		panic(err) // Check has read it
	}
	lanes := relay.Lanes{Workers: map[string]int{}}
	for _, l := range append(bounds, p.Lanes...) {
		if l.Workers > 0 {
			lanes.Workers[l.Name] = l.Workers
		}
	}
	for _, l := range p.Lanes {
		lanes.Served = append(lanes.Served, l.Name)
	}
	return lanes
}

// wake tells the relays of what was just committed: this process's at once, the others
// by a notification.
func (h *house) wake(targets []event.TargetID) {
	if len(targets) == 0 {
		return
	}
	if h.relay != nil {
		h.relay.Wake(targets)
	}
	h.remote.Wake(targets)
	h.ring()
}

// resumed has every relay look for what was paused and may be claimed now.
func (h *house) resumed() {
	h.seek()
	h.ring()
}

// ring notifies the other processes, unless they poll.
func (h *house) ring() {
	if h.Config.Wake == "notify" {
		h.bell.Ring()
	}
}

// seek has what claims in this process look for what is owed.
func (h *house) seek() {
	if h.relay != nil {
		h.relay.Look()
	}
	h.remote.Look()
}

// resume is called when LISTEN is connected, and so the database was just reached.
func (h *house) resume() {
	if h.relay != nil {
		h.relay.Resume()
	}
	h.remote.Look()
}

// look is called when another process has committed something.
func (h *house) look() {
	h.desk.LookForFired()
	h.seek()
}

// matchFirst matches what was fired in SQL before a relay looks once for what is owed.
func (h *house) matchFirst(ctx context.Context) {
	if err := h.desk.MatchAll(ctx); err != nil && ctx.Err() == nil {
		h.Log.WarnContext(ctx, "what was fired in SQL could not be matched before the relay looked", "err", err)
	}
}

// run starts every part and waits. A part that fails stops the others.
func (h *house) run(ctx context.Context) error {
	doors, err := h.open()
	if err != nil {
		return err
	}
	defer h.serveOps(doors.ops)()
	group, groupCtx := errgroup.WithContext(ctx)
	// What serves others ends after those it serves.
	support, endSupport := context.WithCancel(context.WithoutCancel(ctx))
	defer endSupport()
	desk := make(chan struct{})
	go func() { h.desk.Run(support); close(desk) }()
	if h.Config.Wake == "notify" {
		go h.bell.Run(support)
	}
	watched := make(chan struct{})
	watching, endWatch := context.WithCancel(context.WithoutCancel(ctx))
	defer endWatch()
	go func() { h.sentinel.run(watching); close(watched) }()
	if h.Config.Wake == "notify" && (h.relay != nil || h.Role.API) {
		go h.bell.Listen(groupCtx, h.listenURL(), h.resume, h.look)
	}
	relayed := make(chan struct{})
	if h.relay != nil {
		group.Go(func() error {
			defer close(relayed)
			if h.Once {
				h.matchFirst(groupCtx)
			}
			h.relay.Run(groupCtx)
			if h.relay.Finished() {
				return errDone
			}
			return nil
		})
		group.Go(func() error { h.desk.CheckBack(groupCtx, h.courier.Ask); return nil })
		group.Go(func() error { h.desk.MatchFired(groupCtx); return nil })
	} else {
		group.Go(func() error { defer close(relayed); h.runner.Run(groupCtx); return nil })
	}
	group.Go(func() error { h.after.Run(groupCtx); return nil })
	group.Go(func() error { h.maintain(groupCtx); return nil })
	group.Go(func() error { h.sweep(groupCtx); return nil })
	group.Go(func() error { h.remote.Run(groupCtx); return nil })
	if h.eager != nil {
		group.Go(func() error { h.eager.Run(groupCtx); return nil })
	}
	if h.Role.Worker {
		group.Go(func() error { h.work(groupCtx); return nil })
	}
	if h.Role.API {
		group.Go(func() error { return h.serve(groupCtx, doors.api, relayed) })
	} else if h.Ready != nil {
		h.Ready("")
	}
	go func() { <-groupCtx.Done(); h.gauge.stopping.Store(true) }()
	err = group.Wait()
	endWatch()
	<-watched
	endSupport()
	<-desk
	h.courier.CloseIdle()
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// errDone ends a process whose work has an end.
var errDone = errors.New("done")

func (h *house) listenURL() string {
	if h.Config.ListenURL != "" {
		return h.Config.ListenURL
	}
	return h.Config.DatabaseURL
}

// prune is how the process prunes.
func (h *house) prune() fire.Prune {
	return fire.Prune{Keep: time.Duration(h.Config.Retention), Rows: h.Config.PruneRows}
}

// checkKeys refuses to serve an API that nobody could call.
func (h *house) checkKeys(ctx context.Context) error {
	if !h.Role.API || h.Config.Auth == "off" || h.Config.AdminKey != "" {
		return nil
	}
	any, err := h.keys.Any(ctx)
	if err == nil && !any {
		err = NoKeys()
	}
	return err
}

func (h *house) gate() *access.Gate {
	if h.Config.Auth == "off" {
		return &access.Gate{}
	}
	// By the pool of fires: a list that takes long must not keep them out.
	return access.NewGate(h.Config.AdminKey, access.NewKeys(h.pools.fire))
}

// pools are a process's ways to its database.
type pools struct{ api, fire, relay, health, function *pgxpool.Pool }

func (p *Process) openPools(ctx context.Context, tel *telemetry) (*pools, error) {
	open := func(name string, most int32) (*pgxpool.Pool, error) {
		return pg.Open(ctx, p.Config.DatabaseURL, pg.PoolOptions{Name: name, MaxConns: most, Traces: tracesOf(tel)})
	}
	apiPool, err1 := open("api", 12)
	firePool, err2 := open("fire", 8)
	relayPool, err3 := open("relay", 4)
	healthPool, err4 := open("health", 5)
	// No connection is made in it before a function is called.
	functionPool, err5 := pg.Open(ctx, p.Config.DatabaseURL, pg.PoolOptions{Name: "function", MaxConns: int32(p.Config.FunctionConns), Traces: tracesOf(tel), Foreign: true})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	return &pools{apiPool, firePool, relayPool, healthPool, functionPool}, nil
}

// closePatience is how long the end of the process waits for its connections to be closed
// in good order: one that fell silent never is.
const closePatience = 3 * time.Second

func (p *pools) close() {
	var all sync.WaitGroup
	for _, pool := range []*pgxpool.Pool{p.api, p.fire, p.relay, p.health, p.function} {
		all.Go(pool.Close)
	}
	closed := make(chan struct{})
	go func() { all.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(closePatience):
	}
}

// checkSchema makes sure that the database is there and is the one this program was
// made for. At start that is a matter of configuration; later, a bad day.
func (p *Process) checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	if err := awaitDatabase(ctx, pool); err != nil {
		return err
	}
	if p.Config.AutoMigrate {
		if err := p.migrate(ctx, pool); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	status, err := pg.Status(ctx, pool)
	if err != nil {
		return err
	}
	if !status.Current() {
		return ConfigError{"DATABASE_URL leads to a database that this program cannot use: " + status.Advice()}
	}
	if skew, err := pg.Skew(ctx, pool); err == nil && skew.Abs() > 30*time.Second {
		p.Log.Warn("this machine's clock and the database's differ; signatures carry this one's time", "difference", skew.Round(time.Second))
	}
	return nil
}

// MigratePatience is how long a migration may take, with those that others run before it.
const MigratePatience = 5 * time.Minute

func (p *Process) migrate(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, MigratePatience)
	defer cancel()
	return pg.MigrateUp(ctx, pool, p.Log)
}

// OpenReady is a pool over the configured database, which has answered.
func OpenReady(ctx context.Context, c Config) (*pgxpool.Pool, error) {
	pool, err := pg.Open(ctx, c.DatabaseURL, pg.PoolOptions{Name: "command", MaxConns: 4})
	if err != nil {
		return nil, err
	}
	if err := awaitDatabase(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// startPatience is how long a database may take to answer at start, each time that it is
// asked something.
const startPatience = 10 * time.Second

func awaitDatabase(ctx context.Context, pool *pgxpool.Pool) error {
	patience, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	err := pg.WaitReady(patience, pool)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return ConfigError{"DATABASE_URL leads to no database that answers: " + unreachable(err) + "; start it, or correct the URL"}
}

// flush sends the last spans and figures, for a moment.
func (p *Process) flush(tel *telemetry) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := tel.Shutdown(ctx); err != nil {
		p.Log.Warn("the last telemetry could not be exported", "err", err)
	}
}

// workerName tells processes apart for people: a pid alone repeats in containers.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	var random [3]byte
	rand.Read(random[:])
	return fmt.Sprintf("%s:%d:%s", host, os.Getpid(), hex.EncodeToString(random[:]))
}
