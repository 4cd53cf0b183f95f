package pg

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schema is golang-migrate's view of the database. The library's own driver takes locks
// that belong to a session, which go astray behind a transaction pooler; here
// [migrating] holds the one lock there is, and nothing is left to the session.
type schema struct {
	ctx  context.Context
	pool *pgxpool.Pool
}

const createMigrations = `CREATE TABLE IF NOT EXISTS public.` + migrationsTable + ` (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)`

func openSchema(ctx context.Context, pool *pgxpool.Pool) (*schema, error) {
	if _, err := pool.Exec(ctx, createMigrations); err != nil {
		return nil, err
	}
	return &schema{ctx, pool}, nil
}

// Run runs a file. Sent without parameters, its statements are one transaction, unless
// there is only one, which may be of those that take no transaction.
func (s *schema) Run(file io.Reader) error {
	sql, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(s.ctx, string(sql))
	return err
}

// SetVersion keeps the version in place of the last; database.NilVersion is none.
func (s *schema) SetVersion(version int, dirty bool) error {
	return pgx.BeginFunc(s.ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(s.ctx, `TRUNCATE public.`+migrationsTable); err != nil {
			return err
		}
		if version < 0 && !dirty {
			return nil
		}
		_, err := tx.Exec(s.ctx, `INSERT INTO public.`+migrationsTable+` VALUES ($1, $2)`, version, dirty)
		return err
	})
}

// Version is the version that is kept, or database.NilVersion.
func (s *schema) Version() (version int, dirty bool, err error) {
	err = s.pool.QueryRow(s.ctx, `SELECT version, dirty FROM public.`+migrationsTable+` LIMIT 1`).Scan(&version, &dirty)
	if errors.Is(err, pgx.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}

// Lock, Unlock and Close do nothing: the lock and the pool are the caller's.
func (*schema) Lock() error   { return nil }
func (*schema) Unlock() error { return nil }
func (*schema) Close() error  { return nil }

// Open and Drop are of the library's command line, which nobody runs here.
func (*schema) Open(string) (database.Driver, error) { return nil, errors.ErrUnsupported }
func (*schema) Drop() error                          { return errors.ErrUnsupported }

// takeMigrationLock begins the transaction whose end gives the lock back. It is held
// without a snapshot, so nothing in the server waits for that transaction; a statement
// of the extended protocol would leave its portal open, and the snapshot with it.
func takeMigrationLock(ctx context.Context, pool *pgxpool.Pool) (tx pgx.Tx, ours bool, err error) {
	if tx, err = pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
		return nil, false, fmt.Errorf("migrate: %w", err)
	}
	err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1) FROM set_config('idle_in_transaction_session_timeout', '0', true)`,
		pgx.QueryExecModeSimpleProtocol, int64(migrationLock)).Scan(&ours)
	if err != nil || !ours {
		tx.Rollback(context.WithoutCancel(ctx))
	}
	if err != nil {
		return nil, false, fmt.Errorf("migrate: take the migrators' lock: %w", err)
	}
	return tx, ours, nil
}
