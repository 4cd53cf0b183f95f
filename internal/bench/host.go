package bench

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// host is the server that is measured: databases are made on it and dropped again.
type host struct {
	given    string
	admin    *pgxpool.Pool
	template string   // migrated, to be cloned
	made     []string // every database that is there because of us
}

func openHost(ctx context.Context, given string) (*host, error) {
	admin, err := pg.Open(ctx, given, pg.PoolOptions{Name: "bench", MaxConns: 2})
	if err != nil {
		return nil, err
	}
	suffix := make([]byte, 5)
	rand.Read(suffix)
	h := &host{given: given, admin: admin, template: "eventsvc_bench_" + hex.EncodeToString(suffix)}
	if err := h.prepare(ctx); err != nil {
		h.close(context.WithoutCancel(ctx))
		return nil, err
	}
	return h, nil
}

func (h *host) prepare(ctx context.Context) error {
	var may bool
	if err := h.admin.QueryRow(ctx, `SELECT rolsuper OR rolcreatedb FROM pg_roles WHERE rolname = current_user`).Scan(&may); err != nil {
		return fmt.Errorf("look at the server: %w", err)
	}
	if !may {
		return errors.New("the role of DATABASE_URL may not create databases, and bench measures in databases of its own; ALTER ROLE ... CREATEDB, or leave DATABASE_URL out")
	}
	if err := h.create(ctx, h.template, "template0"); err != nil {
		return err
	}
	pool, err := pg.Open(ctx, h.url(h.template), pg.PoolOptions{Name: "bench", MaxConns: 2})
	if err != nil {
		return err
	}
	defer pool.Close()
	// Where it cannot be had, what it would have counted is not in the report.
	pool.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`)
	return pg.MigrateUp(ctx, pool, slog.New(slog.DiscardHandler))
}

func (h *host) create(ctx context.Context, name, template string) error {
	if _, err := h.admin.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()+` TEMPLATE `+pgx.Identifier{template}.Sanitize()); err != nil {
		return fmt.Errorf("make the database %s: %w", name, err)
	}
	h.made = append(h.made, name)
	return nil
}

func (h *host) drop(ctx context.Context, name string) error {
	_, err := h.admin.Exec(ctx, `DROP DATABASE IF EXISTS `+pgx.Identifier{name}.Sanitize()+` WITH (FORCE)`)
	if err == nil {
		h.made = slices.DeleteFunc(h.made, func(n string) bool { return n == name })
	}
	return err
}

// close leaves the server as it was.
func (h *host) close(ctx context.Context) {
	for _, name := range slices.Clone(h.made) {
		h.drop(ctx, name)
	}
	h.admin.Close()
}

// url is that of another database of the server. Of two settings of one name, libpq's
// form takes the last.
func (h *host) url(database string) string {
	if u, err := url.Parse(h.given); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		u.Path = "/" + database
		return u.String()
	}
	return h.given + " dbname=" + database
}

//go:embed sql/settings.sql
var sqlSettings string

// settings are those that a figure means nothing without.
func (h *host) settings(ctx context.Context) ([]Setting, error) {
	rows, err := h.admin.Query(ctx, sqlSettings)
	if err != nil {
		return nil, fmt.Errorf("read the server's settings: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Setting])
}
