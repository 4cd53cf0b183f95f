package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/eventsvc/eventsvc/api"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// doors are the addresses that a process listens at; one that it was not given is nil.
type doors struct{ api, ops net.Listener }

// open listens, before the first attempt is made, so that the egress policy knows the
// process's own addresses.
func (h *house) open() (d doors, err error) {
	if h.Role.API {
		if d.api, err = listen("EVENTSVC_LISTEN", h.Config.Listen); err != nil {
			return d, err
		}
		h.policy.OwnAt(d.api.Addr().String())
	}
	if h.Config.OpsListen != "" {
		if d.ops, err = listen("EVENTSVC_OPS_LISTEN", h.Config.OpsListen); err != nil {
			return d, errors.Join(err, d.close())
		}
		h.policy.Close(d.ops.Addr().String())
	}
	return d, nil
}

func (d doors) close() error {
	if d.api == nil {
		return nil
	}
	return d.api.Close()
}

func listen(setting, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, ConfigError{fmt.Sprintf("%s is %s, which cannot be listened on: %v", setting, address, errors.Unwrap(err))}
	}
	return listener, nil
}

// Bounds of a connection of a caller's. A body has a deadline of its own; see package api.
const (
	headerTime  = 5 * time.Second
	answerTime  = 2 * time.Minute
	idleTime    = 2 * time.Minute
	maxHeader   = 32 << 10
	closingTime = 5 * time.Second
)

func (h *house) server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, WriteTimeout: answerTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(h.Log.Handler(), slog.LevelDebug),
	}
}

// rooms are what the API stands on.
func (h *house) rooms() api.Rooms {
	rooms := api.Rooms{
		Desk: h.desk, Registry: h.registry, Ledger: h.ledger, Gate: h.gate(), Keys: h.keys, Ready: h.gauge.checks,
		Metrics: h.tel.Metrics, Tracer: h.tel.Traces, Meters: h.tel.Meters, Log: h.Log, Version: h.Version,
		Deliver: h.runner.Deliver, Await: h.eager.Await, Remote: h.remote, Try: h.try, Target: h.book.Target, Wake: h.wake, Resumed: h.resumed, Watch: h.watch, Prune: h.prune(), Explain: h.courier.Explain,
	}
	if h.Config.OpsListen != "" {
		rooms.Metrics = nil
	}
	if h.relay != nil {
		rooms.Pauses, rooms.Deaf = h.relay.Pauses, h.bell.Deaf
	}
	if h.Config.TestMode && h.relay != nil {
		rooms.Look, rooms.Hurry = h.relay.Look, h.relay.Hurry
	}
	if h.Inbox != nil {
		rooms.Inbox = inbox{h.book, h.Inbox}
	}
	return rooms
}

// serve answers requests until the context ends. It goes on answering while the relay
// finishes what it has in hand, and then finishes what it has itself.
func (h *house) serve(ctx context.Context, listener net.Listener, relayed <-chan struct{}) error {
	server := h.server(h.tel.traced(api.New(h.rooms())))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if h.Ready != nil {
		h.Ready(listener.Addr().String())
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	<-relayed
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		server.Close()
	}
	return nil
}

// serveOps answers operators until the very end.
func (h *house) serveOps(listener net.Listener) (end func()) {
	if listener == nil {
		return func() {}
	}
	h.Log.Info("health, metrics and pprof are served at EVENTSVC_OPS_LISTEN", "address", listener.Addr().String())
	server := h.server(api.NewOps(api.Rooms{Ready: h.gauge.checks, Metrics: h.tel.Metrics, Log: h.Log}))
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			h.Log.Error("the address of EVENTSVC_OPS_LISTEN is served no longer", "err", err)
		}
	}()
	return func() { server.Close() }
}

// try makes one request to an address, or one call, as it is declared now. The signing secrets and the
// policy are those of any attempt; the timeout may be shorter.
func (h *house) try(ctx context.Context, c *event.Claim, within time.Duration) (event.Verdict, error) {
	if err := h.book.Read(ctx); err != nil {
		return event.Verdict{}, err
	}
	t := h.book.Target(c.TargetID)
	if t == nil || t.Deleted {
		return event.Verdict{}, registry.ErrNotFound
	}
	if t.Unusable != "" {
		return event.Verdict{Ruling: event.Failure, Class: event.ClassDecode, Reason: t.Unusable}, nil
	}
	to, receiver := *t, *t.Receiver
	receiver.Timeout = min(receiver.Timeout, within)
	to.Receiver = &receiver
	c.To, c.Format = &to, receiver.Format
	if receiver.Function != "" {
		return h.calls.try(ctx, c)
	}
	if err := h.courier.Check(c); err != nil {
		return event.Verdict{Ruling: event.Permanent, Class: event.ClassDecode, Reason: err.Error()}, nil
	}
	return h.courier.Attempt(ctx, c), nil
}
