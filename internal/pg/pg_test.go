package pg_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

func TestMigratorsTakeTurnsAndAllEndClean(t *testing.T) {
	url := pgtest.Empty(t)
	var all sync.WaitGroup
	for range 4 {
		pool := pgtest.Open(t, url)
		all.Go(func() {
			if err := pg.MigrateUp(t.Context(), pool, quiet); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	status, err := pg.Status(t.Context(), pgtest.Open(t, url))
	if err != nil || !status.Current() || status.Version == 0 {
		t.Errorf("got %+v, %v", status, err)
	}
}

// A migration that builds an index without locking its table waits for every transaction
// that may still see the table as it was.
func TestAMigratorsLockHoldsUpNoIndex(t *testing.T) {
	pool := pgtest.Open(t, pgtest.Empty(t))
	lock, ours, err := pg.TakeMigrationLock(t.Context(), pool)
	if err != nil || !ours {
		t.Fatal(ours, err)
	}
	defer lock.Rollback(context.Background())
	if _, ours, err := pg.TakeMigrationLock(t.Context(), pool); err != nil || ours {
		t.Errorf("a second migrator has the lock too: %v", err)
	}
	limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, sql := range []string{`CREATE TABLE t (n int)`, `CREATE INDEX CONCURRENTLY ON t (n)`} {
		if _, err := pool.Exec(limited, sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// Up, down and up again come to the same schema.
func TestMigrationsCanBeTakenBack(t *testing.T) {
	pool := pgtest.Open(t, pgtest.Empty(t))
	catalogue := func() string {
		var text string
		err := pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(relname || relkind::text, ',' ORDER BY relname), '') FROM pg_class
			WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'eventsvc')`).Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if err := pg.MigrateUp(t.Context(), pool, quiet); err != nil {
		t.Fatal(err)
	}
	first := catalogue()
	status, err := pg.Status(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.MigrateDown(t.Context(), pool, int(status.Version), quiet); err != nil {
		t.Fatal(err)
	}
	if left := catalogue(); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if err := pg.MigrateUp(t.Context(), pool, quiet); err != nil {
		t.Fatal(err)
	}
	if second := catalogue(); second != first || first == "" {
		t.Errorf("got %s\nthen %s", first, second)
	}
}

// What waits for a decision, or for its receivers, is not dropped with its table.
func TestAMigrationIsNotTakenBackOverWhatWaits(t *testing.T) {
	pool := pgtest.New(t)
	for _, c := range []struct{ table, waits, goes, says string }{
		{"unmatched", `INSERT INTO eventsvc.unmatched (event_id) VALUES (gen_random_uuid())`, `UPDATE eventsvc.unmatched SET refused = 'x'`, "1 events that were fired in SQL are not matched yet"},
		{"transactions", `INSERT INTO eventsvc.transactions (id, producer, key, prepared, state, held) VALUES (gen_random_uuid(), 0, 'k', true, 'prepared', '[]')`, `DELETE FROM eventsvc.transactions`, "1 transactions are prepared or in doubt"},
	} {
		if _, err := pool.Exec(t.Context(), c.waits); err != nil {
			t.Fatal(err)
		}
		err := pg.MigrateDown(t.Context(), pool, 100, quiet)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %q", err, c.says)
		}
		status, err := pg.Status(t.Context(), pool)
		if err != nil || status.Dirty {
			t.Errorf("got %+v, %v", status, err)
		}
		var stands bool
		if err := pool.QueryRow(t.Context(), `SELECT to_regclass('eventsvc.' || $1) IS NOT NULL`, c.table).Scan(&stands); err != nil || !stands {
			t.Errorf("%s is gone, %v", c.table, err)
		}
		if _, err := pool.Exec(t.Context(), c.goes); err != nil {
			t.Fatal(err)
		}
	}
	if err := pg.MigrateUp(t.Context(), pool, quiet); err != nil {
		t.Errorf("up again: %v", err)
	}
}

func TestADirtySchemaSaysWhatToDoAndCanBeRepaired(t *testing.T) {
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `UPDATE public.eventsvc_migrations SET dirty = true`); err != nil {
		t.Fatal(err)
	}
	if err := pg.MigrateUp(t.Context(), pool, quiet); err == nil || !strings.Contains(err.Error(), "migrate repair") {
		t.Errorf("got %v", err)
	}
	if err := pg.MigrateRepair(t.Context(), pool, quiet); err != nil {
		t.Fatal(err)
	}
	if status, err := pg.Status(t.Context(), pool); err != nil || status.Dirty || status.Version != status.Latest-1 {
		t.Errorf("got %+v, %v", status, err)
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `UPDATE public.eventsvc_migrations SET version = 9999`); err != nil {
		t.Fatal(err)
	}
	status, err := pg.Status(t.Context(), pool)
	if err != nil || status.Current() || !strings.Contains(status.Advice(), "newer") {
		t.Errorf("got %+v, %v, %s", status, err, status.Advice())
	}
	if err := pg.MigrateUp(t.Context(), pool, quiet); err == nil {
		t.Error("an older program migrated a newer schema")
	}
}

func TestThereAreAlwaysPartitionsAhead(t *testing.T) {
	pool := pgtest.New(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := pg.MakePartitions(t.Context(), pool); err != nil && !pg.LockTimeout(err) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made, err := pg.MakePartitions(t.Context(), pool); err != nil || made != 0 {
		t.Errorf("made %d more, %v", made, err)
	}
	// An event of every day of the next five weeks has a place.
	_, err := pool.Exec(t.Context(), `INSERT INTO eventsvc.events (id, type, producer, idempotency_key, data)
		SELECT eventsvc.uuid_floor(d), 'a.b', 0, 'k', '' FROM generate_series(now() - interval '7 days', now() + interval '35 days', interval '1 day') d`)
	if err != nil {
		t.Error(err)
	}
}

func TestErrorsAreToldApart(t *testing.T) {
	state := func(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		err                                   error
		unavailable, retryable, lock, badData bool
	}{
		{nil, false, false, false, false},
		{state("57P01"), true, false, false, false},
		{state("57P03"), true, false, false, false},
		{state("57014"), true, false, false, false},
		{state("53300"), true, false, false, false},
		{state("53100"), true, false, false, false},
		{state("25006"), true, false, false, false},
		{state("08006"), true, false, false, false},
		{state("40001"), false, true, false, false},
		{state("40P01"), false, true, false, false},
		{state("55P03"), false, false, true, false},
		{state("22021"), false, false, false, true},
		{state("23505"), false, false, false, true},
		{state("54000"), false, false, false, true},
		{state("42P01"), false, false, false, false},
		{io.ErrUnexpectedEOF, true, false, false, false},
		{&net.OpError{Op: "read", Err: io.EOF}, true, false, false, false},
		{context.DeadlineExceeded, true, false, false, false},
		{context.Canceled, false, false, false, false},
	} {
		if pg.Unavailable(c.err) != c.unavailable || pg.Retryable(c.err) != c.retryable || pg.LockTimeout(c.err) != c.lock || pg.BadData(c.err) != c.badData {
			t.Errorf("%v: %v %v %v %v", c.err, pg.Unavailable(c.err), pg.Retryable(c.err), pg.LockTimeout(c.err), pg.BadData(c.err))
		}
	}
}

func TestABadURLIsNeverRepeated(t *testing.T) {
	for _, url := range []string{"postgres://u:hunter2@[/x", "postgres://u:hunter2@host:port/x", "hunter2", "host=x port=hunter2", "postgres://u:hunter2@h/x?sslmode=hunter2"} {
		err := pg.CheckURL(url)
		if err == nil || strings.Contains(err.Error(), "hunter2@") || strings.Contains(err.Error(), "u:hunter2") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

// ears is a listener and the wake-ups it heard.
func ears(t *testing.T, b *pg.Bell, url string) chan struct{} {
	t.Helper()
	heard := make(chan struct{}, 1000)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		b.Listen(ctx, url, func() { heard <- struct{}{} }, func() { heard <- struct{}{} })
		close(done)
	}()
	t.Cleanup(func() { stop(); <-done })
	return heard
}

func await(t *testing.T, heard <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-heard:
	case <-time.After(10 * time.Second):
		t.Fatal(what + " was not heard")
	}
}

func TestABellWakesOthersAndNotItself(t *testing.T) {
	url := pgtest.URL(t)
	pool := pgtest.Open(t, url)
	mine, theirs := pg.NewBell(pool, quiet), pg.NewBell(pool, quiet)
	go mine.Run(t.Context())
	go theirs.Run(t.Context())
	heard := ears(t, mine, url)
	await(t, heard, "the connection")
	mine.Ring()
	theirs.Ring()
	await(t, heard, "another's ring")
	if len(heard) != 0 {
		t.Error("a process woke itself")
	}
}

func TestAThousandRingsAreFewNotifications(t *testing.T) {
	url := pgtest.URL(t)
	pool := pgtest.Open(t, url)
	bell := pg.NewBell(pool, quiet)
	heard := ears(t, pg.NewBell(pool, quiet), url)
	await(t, heard, "the connection")
	go bell.Run(t.Context())
	began := time.Now()
	for range 1000 {
		bell.Ring()
	}
	await(t, heard, "a ring")
	bell.Ring()
	await(t, heard, "the last ring")
	if most := 2 + int(time.Since(began)/(100*time.Millisecond)); len(heard)+2 > most {
		t.Errorf("%d notifications in %v", len(heard)+2, time.Since(began))
	}
}

func TestAListenerThatWasCutOffConnectsAgainAndWakesOnce(t *testing.T) {
	url := pgtest.URL(t)
	pool := pgtest.Open(t, url)
	heard := ears(t, pg.NewBell(pool, quiet), url)
	await(t, heard, "the connection")
	if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'eventsvc/listen' AND datname = current_database()`); err != nil {
		t.Fatal(err)
	}
	await(t, heard, "the connection after it was cut")
}

func TestSkewIsMeasured(t *testing.T) {
	if skew, err := pg.Skew(t.Context(), pgtest.New(t)); err != nil || skew.Abs() > 5*time.Second {
		t.Errorf("got %v, %v", skew, err)
	}
}

func serverIn(t *testing.T, dir string) (*pg.Server, error) {
	t.Helper()
	binaries, err := pg.FindBinaries(t.Context())
	if err != nil {
		t.Skipf("there is no PostgreSQL on this machine: %v", err)
	}
	return pg.StartServer(t.Context(), pg.ServerOptions{Dir: dir, Binaries: binaries, Log: quiet, DieWithParent: true})
}

// reachable is a directory that the server's user can get to.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "eventsvc-pg-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func query(t *testing.T, url, sql string) (n int) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAServerFindsItsDataAgain(t *testing.T) {
	dir := filepath.Join(reachable(t), "data dir's", "x")
	for round := range 2 {
		s, err := serverIn(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			query(t, s.URL(), `WITH x AS (SELECT 1) SELECT * FROM x`)
			pool := pgtest.Open(t, s.URL())
			if _, err := pool.Exec(t.Context(), `CREATE TABLE kept AS SELECT 42 AS n`); err != nil {
				t.Fatal(err)
			}
			pool.Close()
		} else if n := query(t, s.URL(), `SELECT n FROM kept`); n != 42 {
			t.Errorf("got %d", n)
		}
		s.Stop(context.Background())
		<-s.Done()
	}
}

func TestTwoServersCannotShareADirectory(t *testing.T) {
	dir := reachable(t)
	s, err := serverIn(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	if _, err := serverIn(t, dir); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v, want an error that names the process", err)
	}
}

func TestAnUnfinishedInitdbIsBegunAnew(t *testing.T) {
	dir := reachable(t)
	if err := os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := serverIn(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop(context.Background())
}

func TestDataOfAnotherMajorVersionIsRefusedByName(t *testing.T) {
	dir := reachable(t)
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := serverIn(t, dir); err == nil || !strings.Contains(err.Error(), "PostgreSQL 9") || !strings.Contains(err.Error(), "EVENTSVC_PG_BIN") {
		t.Errorf("got %v", err)
	}
}

func TestALongPathStillHasASocket(t *testing.T) {
	dir := filepath.Join(reachable(t), strings.Repeat("long/", 30))
	s, err := serverIn(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	if n := query(t, s.URL(), `SELECT 7`); n != 7 {
		t.Errorf("got %d", n)
	}
}

func TestANamedDirectoryWithoutBinariesIsAnError(t *testing.T) {
	t.Setenv("EVENTSVC_PG_BIN", t.TempDir())
	if _, err := pg.FindBinaries(t.Context()); err == nil || !strings.Contains(err.Error(), "EVENTSVC_PG_BIN") || !strings.Contains(err.Error(), "initdb") {
		t.Errorf("got %v", err)
	}
}

func TestAServerBelowADirectoryThatItsUserCannotEnterLiesElsewhereAndIsFoundAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root runs the server as somebody else; there is nothing to show")
		return
	}
	closed := reachable(t)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "data")
	var homes []string
	for range 2 {
		s, err := serverIn(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		s.Stop(context.Background())
		home, err := os.Readlink(filepath.Join(dir, "home"))
		if err != nil {
			t.Fatal(err)
		}
		homes = append(homes, home)
		t.Cleanup(func() { os.RemoveAll(home) })
	}
	if homes[0] != homes[1] {
		t.Errorf("it lay in %v", homes)
	}
}
