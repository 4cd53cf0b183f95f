package pg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/migrations"
)

// MigrationStatus is where a database's schema stands.
type MigrationStatus struct {
	Version uint // 0: nothing was migrated
	Latest  uint // what this binary brings
	Dirty   bool // a migration failed half way and somebody must look
	Pending []string
}

// Current reports whether the schema is the one this binary was made for.
func (s MigrationStatus) Current() bool { return s.Version == s.Latest && !s.Dirty }

// Advice is what to do about a schema that is not current, in a sentence.
func (s MigrationStatus) Advice() string {
	switch {
	case s.Dirty:
		return fmt.Sprintf("migration %d failed; its file ran in one transaction, so nothing of it remains: correct the cause and run `eventsvc migrate repair`, then `eventsvc migrate up`", s.Version)
	case s.Version < s.Latest:
		return fmt.Sprintf("the schema is at version %d and this program needs %d; run `eventsvc migrate up`", s.Version, s.Latest)
	case s.Version > s.Latest:
		return fmt.Sprintf("the schema is at version %d, which is newer than this program's %d; run a newer program", s.Version, s.Latest)
	}
	return ""
}

const migrationsTable = "eventsvc_migrations"

// migrationLock is the advisory lock of migrators, an arbitrary number of our own.
const migrationLock = 4_011_870_233

// Status reads where the schema stands.
func Status(ctx context.Context, pool *pgxpool.Pool) (MigrationStatus, error) {
	names, err := upFiles()
	if err != nil {
		return MigrationStatus{}, err
	}
	s := MigrationStatus{Latest: versionOf(names[len(names)-1])}
	var exists bool
	if err := pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, "public."+migrationsTable).Scan(&exists); err != nil {
		return s, fmt.Errorf("read the schema's version: %w", err)
	}
	if exists {
		var version int64
		err := pool.QueryRow(ctx, `SELECT coalesce(max(version), 0), coalesce(bool_or(dirty), false) FROM public.`+migrationsTable).Scan(&version, &s.Dirty)
		if err != nil {
			return s, fmt.Errorf("read the schema's version: %w", err)
		}
		s.Version = uint(max(version, 0))
	}
	for _, name := range names {
		if versionOf(name) > s.Version {
			s.Pending = append(s.Pending, name)
		}
	}
	return s, nil
}

func upFiles() ([]string, error) {
	names, err := fs.Glob(migrations.FS, "*.up.sql")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("the program carries no migrations: %w", errors.Join(err, fs.ErrNotExist))
	}
	slices.Sort(names)
	return names, nil
}

func versionOf(name string) uint {
	digits, _, _ := strings.Cut(path.Base(name), "_")
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		panic("migrations: a file's name begins with no number: " + name)
	}
	return uint(n)
}

// MigrateUp brings the schema to this binary's version. Any number of processes may
// call it at once: they take turns, and those that come late find nothing to do.
func MigrateUp(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	return migrating(ctx, pool, log, func(m *migrate.Migrate) error {
		status, err := Status(ctx, pool)
		switch {
		case err != nil:
			return err
		case status.Dirty || status.Version > status.Latest:
			return errors.New(status.Advice())
		}
		return m.Up()
	})
}

// MigrateDown takes the last steps migrations back. One that would lose what waits refuses;
// then it and those before it stay.
func MigrateDown(ctx context.Context, pool *pgxpool.Pool, steps int, log *slog.Logger) error {
	return migrating(ctx, pool, log, func(m *migrate.Migrate) error {
		err := m.Steps(-steps)
		if err == nil || errors.Is(err, migrate.ErrNoChange) {
			return err
		}
		return errors.Join(err, stepBack(m))
	})
}

// stepBack clears the mark of a migration that could not be taken back, which golang-migrate
// leaves at the version below: the file ran in one transaction, so its version is true still.
func stepBack(m *migrate.Migrate) error {
	below, dirty, err := m.Version()
	if errors.Is(err, migrate.ErrNilVersion) {
		below, dirty, err = 0, true, nil
	}
	if err != nil || !dirty {
		return err
	}
	names, err := upFiles()
	if err != nil {
		return err
	}
	for _, name := range names {
		if v := versionOf(name); v > below {
			return m.Force(int(v))
		}
	}
	return nil
}

// MigrateRepair clears the mark of a migration that failed. Each file runs in one
// transaction, so nothing of a failed one remains and the version before it is true.
func MigrateRepair(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	return migrating(ctx, pool, log, func(m *migrate.Migrate) error {
		status, err := Status(ctx, pool)
		if err != nil {
			return err
		}
		if !status.Dirty {
			return migrate.ErrNoChange
		}
		before := -1 // golang-migrate's "nothing yet"
		names, err := upFiles()
		if err != nil {
			return err
		}
		for _, name := range names {
			if v := versionOf(name); v < status.Version {
				before = int(v)
			}
		}
		return m.Force(before)
	})
}

// migrating runs one change of the schema under the migrators' lock. The lock is taken
// by asking again and again, not by waiting: a waiter inside the lock's function is an
// open statement, on which CREATE INDEX CONCURRENTLY waits in its turn, for ever.
func migrating(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger, change func(*migrate.Migrate) error) error {
	for waited := false; ; waited = true {
		lock, ours, err := takeMigrationLock(ctx, pool)
		if err != nil {
			return err
		}
		if ours {
			defer lock.Rollback(context.WithoutCancel(ctx))
			break
		}
		if !waited {
			log.InfoContext(ctx, "waiting for another migrator")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("migrate: another migrator holds the lock: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	m, err := migrator(ctx, pool)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer m.Close()
	if err := change(m); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func migrator(ctx context.Context, pool *pgxpool.Pool) (*migrate.Migrate, error) {
	source, err := iofs.New(migrations.FS, ".")
	if err != nil {
		return nil, err
	}
	db, err := openSchema(ctx, pool)
	if err != nil {
		return nil, err
	}
	return migrate.NewWithInstance("iofs", source, "pgx5", db)
}
