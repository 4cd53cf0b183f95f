package pgtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// host is a server on which databases can be made.
type host struct {
	admin *pgxpool.Pool
	url   func(database string) string
	stop  func()
}

// containerImage is the image that the tests ask for where nothing else is there.
const containerImage = "postgres:18"

func findHost(ctx context.Context) (*host, error) {
	var reasons []error
	for _, way := range []struct {
		name string
		try  func(context.Context) (*host, error)
	}{
		{"TEST_DATABASE_URL", fromEnvironment},
		{"PostgreSQL on this machine", fromBinaries},
		{"a container", fromContainer},
	} {
		h, err := way.try(ctx)
		if err == nil {
			return h, nil
		}
		reasons = append(reasons, fmt.Errorf("- %s: %w", way.name, err))
	}
	return nil, errors.Join(append(reasons, errors.New("set TEST_DATABASE_URL, or "+pg.HowToGetPostgres))...)
}

func fromEnvironment(ctx context.Context) (*host, error) {
	given := os.Getenv("TEST_DATABASE_URL")
	if given == "" {
		return nil, errors.New("not set")
	}
	u, err := url.Parse(given)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return nil, errors.New("is no postgres:// URL")
	}
	return connect(ctx, given, func(database string) string {
		other := *u
		other.Path = "/" + database
		return other.String()
	}, func() {})
}

func fromBinaries(ctx context.Context) (*host, error) {
	binaries, err := pg.FindBinaries(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "eventsvc-pgtest-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	server, err := pg.StartServer(ctx, pg.ServerOptions{Dir: dir, Binaries: binaries, Log: slog.New(slog.DiscardHandler), DieWithParent: true})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	stop := func() { server.Stop(context.Background()); os.RemoveAll(dir) }
	return connect(ctx, server.MaintenanceURL(), func(database string) string {
		return strings.Replace(server.MaintenanceURL(), "dbname=postgres", "dbname="+database, 1)
	}, stop)
}

func fromContainer(ctx context.Context) (*host, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c, err := postgres.Run(ctx, containerImage, postgres.WithDatabase("app"), postgres.BasicWaitStrategies(),
		testcontainers.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	given, err := c.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(given)
	if err != nil {
		return nil, err
	}
	return connect(ctx, given, func(database string) string {
		other := *u
		other.Path = "/" + database
		return other.String()
	}, func() { testcontainers.TerminateContainer(c) })
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func connect(ctx context.Context, admin string, url func(string) string, stop func()) (*host, error) {
	pool, err := pg.Open(ctx, admin, pg.PoolOptions{Name: "pgtest", MaxConns: 4})
	if err != nil {
		stop()
		return nil, err
	}
	var may bool
	err = pool.QueryRow(ctx, `SELECT rolsuper OR rolcreatedb FROM pg_roles WHERE rolname = current_user`).Scan(&may)
	if err == nil && !may {
		err = errors.New("its role may not create databases; ALTER ROLE ... CREATEDB")
	}
	if err != nil {
		pool.Close()
		stop()
		return nil, err
	}
	return &host{admin: pool, url: url, stop: stop}, nil
}

// clone makes a database from a template, and tries again while another test does the
// same: PostgreSQL refuses a template that somebody looks at.
func (h *host) clone(ctx context.Context, name, template string) error {
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, err := h.admin.Exec(ctx, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy`, pgx.Identifier{name}.Sanitize(), pgx.Identifier{template}.Sanitize()))
		if err == nil || pg.Code(err) != "55006" || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
