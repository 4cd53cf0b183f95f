package app

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/task"
)

// Dev is the service for one person at one machine: a private database, the schema,
// API, relay and an inbox, with nothing to set up.
type Dev struct {
	Config  Config
	DataDir string
	NATS    bool // with a private NATS server and a worker
	Version string
	Log     *slog.Logger
	Out     io.Writer // what to do next, and what arrives in the inbox
}

// Run runs it until the context ends.
func (d *Dev) Run(ctx context.Context) error {
	dir, err := filepath.Abs(d.DataDir)
	if err != nil {
		return err
	}
	if err := d.prepare(dir); err != nil {
		return err
	}
	if d.Config.DatabaseURL == "" {
		server, err := d.startDatabase(ctx, filepath.Join(dir, "postgres"))
		if err != nil {
			return err
		}
		defer server.Stop(context.WithoutCancel(ctx))
		d.Config.DatabaseURL = server.URL()
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			select {
			case <-server.Done():
				cancel(errDatabaseGone)
			case <-ctx.Done():
			}
		}()
	}
	if d.NATS && d.Config.NATSURL == "" {
		server, err := task.StartServer(filepath.Join(dir, "nats"), 0)
		if err != nil {
			return err
		}
		defer server.Stop()
		d.Config.NATSURL = server.URL()
	}
	p := &Process{Config: d.Config, Role: Role{API: true, Relay: true, Worker: d.NATS}, Version: d.Version, Log: d.Log, Inbox: d.Out,
		Ready: func(address string) { fmt.Fprint(d.Out, welcome(address)) }}
	err = p.Run(ctx)
	if errors.Is(context.Cause(ctx), errDatabaseGone) {
		return errDatabaseGone
	}
	return err
}

var errDatabaseGone = errors.New("the private database has ended; its log is postgres.log in the data directory")

// prepare sets what dev decides for people: an open API that only this machine can
// reach, webhooks to this machine, and a sealing key of its own.
func (d *Dev) prepare(dir string) error {
	if d.Config.AdminKey == "" {
		if !isLoopback(d.Config.Listen) {
			return ConfigError{fmt.Sprintf("dev asks for no API keys, and %s can be reached from outside; listen on 127.0.0.1, or set EVENTSVC_ADMIN_KEY", d.Config.Listen)}
		}
		d.Config.Auth = "off"
	}
	if os.Getenv("EVENTSVC_ALLOW_PRIVATE") == "" {
		d.Config.AllowPrivate = "true"
	}
	d.Config.AutoMigrate, d.Config.TestMode = true, true
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return ConfigError{fmt.Sprintf("the data directory %s cannot be made: %v", dir, errors.Unwrap(err))}
	}
	if d.Config.SecretKey != "" {
		return nil
	}
	key, err := keepKey(filepath.Join(dir, "secret.key"))
	d.Config.SecretKey = key
	return err
}

// keepKey reads the sealing key of a data directory, and makes it the first time.
func keepKey(file string) (string, error) {
	if kept, err := os.ReadFile(file); err == nil {
		return strings.TrimSpace(string(kept)), nil
	}
	key := make([]byte, 32)
	rand.Read(key)
	text := base64.StdEncoding.EncodeToString(key)
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep the sealing key: %w", err)
	}
	return text, nil
}

func (d *Dev) startDatabase(ctx context.Context, dir string) (*pg.Server, error) {
	return StartDatabase(ctx, pg.ServerOptions{Dir: dir, Log: d.Log, Durable: true})
}

// StartDatabase starts a private database from the binaries on this machine, or from some
// that it downloads.
func StartDatabase(ctx context.Context, o pg.ServerOptions) (*pg.Server, error) {
	binaries, err := pg.FindBinaries(ctx)
	if errors.Is(err, pg.ErrNoBinaries) {
		o.Log.InfoContext(ctx, "there is no PostgreSQL on this machine; downloading one")
		binaries, err = pg.Downloader{}.Fetch(ctx)
	}
	if err != nil {
		return nil, ConfigError{err.Error()}
	}
	o.Binaries = binaries
	o.Log.InfoContext(ctx, "starting a private database", "directory", o.Dir, "postgres", binaries.Major)
	return pg.StartServer(ctx, o)
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// welcome is what to do next. Its commands work when pasted.
func welcome(address string) string {
	base := "http://" + address
	return strings.ReplaceAll(`ready BASE

Declare a receiver. This one is the service's own inbox, which prints here what arrives:

  curl -X PUT BASE/v1/receivers/demo -H 'Content-Type: application/json' \
    -d '{"events": ["*"], "url": "BASE/dev/inbox"}'

Fire an event, once, however often this is sent:

  curl -X POST BASE/v1/events -H 'Idempotency-Key: order-1042' -H 'Content-Type: application/json' \
    -d '{"type": "order.placed", "data": {"order": 1042, "total": "19.90"}}'

See what became of it, with every attempt:

  curl BASE/v1/deliveries

API reference: BASE/docs    Stop: Ctrl-C    Everything is kept in the data directory.

`, "BASE", base)
}
