package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/migrations"
)

// templateLock is the advisory lock of those who make the template.
const templateLock = 4_011_870_299

// template is a migrated database to clone. It is named after a hash of the
// migrations, so that test processes which share a server share it, and a changed
// migration makes another.
func (h *host) template(ctx context.Context) (string, error) {
	name, err := templateName()
	if err != nil {
		return "", err
	}
	conn, err := h.admin.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(templateLock)); err != nil {
		return "", err
	}
	defer conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, int64(templateLock))
	var ready bool
	// A database whose making was interrupted is no template yet, and is made anew.
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1 AND datistemplate)`, name).Scan(&ready); err != nil || ready {
		return name, err
	}
	quoted := pgx.Identifier{name}.Sanitize()
	for _, sql := range []string{`DROP DATABASE IF EXISTS ` + quoted, `CREATE DATABASE ` + quoted + ` TEMPLATE template0`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return "", err
		}
	}
	if err := migrated(ctx, h.url(name)); err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, `ALTER DATABASE `+quoted+` IS_TEMPLATE true`)
	return name, err
}

func migrated(ctx context.Context, url string) error {
	pool, err := pg.Open(ctx, url, pg.PoolOptions{Name: "pgtest"})
	if err != nil {
		return err
	}
	defer pool.Close()
	return pg.MigrateUp(ctx, pool, slog.New(slog.DiscardHandler))
}

func templateName() (string, error) {
	sum := sha256.New()
	// The schema's first partitions are those of the weeks around its making.
	year, week := time.Now().UTC().ISOWeek()
	fmt.Fprintf(sum, "%d-%d\n", year, week)
	err := fs.WalkDir(migrations.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(migrations.FS, name)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
		return err
	})
	return "eventsvc_template_" + hex.EncodeToString(sum.Sum(nil)[:8]), err
}
