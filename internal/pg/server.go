package pg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Server is a private PostgreSQL server on a unix socket, for `eventsvc dev` and for
// tests. Nothing but this machine can reach it.
type Server struct {
	data   string // the data directory
	socket string // the directory of its socket
	lock   *os.File
	cmd    *exec.Cmd
	done   chan struct{}
}

// ServerOptions say how to start one.
type ServerOptions struct {
	// Dir holds everything of the server: an absolute path. It is made if need be.
	Dir      string
	Binaries Binaries
	Log      *slog.Logger
	// Durable keeps what was committed through a crash of the machine. Tests do without.
	Durable bool
	// DieWithParent stops the server when this process is gone, however it went (Linux).
	DieWithParent bool
	// Count loads pg_stat_statements, where the binaries bring it.
	Count bool
	// Settings are more of the server's, each as name=value.
	Settings []string
}

const (
	serverDatabase = "eventsvc"
	startTimeout   = 30 * time.Second
	maxSocketPath  = 100 // the kernel allows 107 bytes, and the file's name needs some
)

// StartServer starts the server of a directory, making its data the first time.
func StartServer(ctx context.Context, o ServerOptions) (*Server, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{lock: lock, done: make(chan struct{})}
	if err := s.prepare(ctx, o); err != nil {
		s.Stop(context.WithoutCancel(ctx))
		return nil, err
	}
	return s, nil
}

// prepare does what can fail: a server that was begun is stopped by the caller.
func (s *Server) prepare(ctx context.Context, o ServerOptions) error {
	owner, err := serverUser()
	if err != nil {
		return err
	}
	home, err := homeFor(o.Dir, owner, o.Log)
	if err != nil {
		return err
	}
	s.data = filepath.Join(home, "data")
	if s.socket, err = socketDir(home, owner); err != nil {
		return err
	}
	if err := stopLeftOver(ctx, s.data, o.Log); err != nil {
		return err
	}
	if err := initialize(ctx, o, home, s.data, owner); err != nil {
		return err
	}
	if err := s.start(o, home, owner); err != nil {
		return err
	}
	return s.awaitReady(ctx, home)
}

// URL reaches the server's database.
func (s *Server) URL() string { return s.urlOf(serverDatabase) }

// MaintenanceURL reaches its database postgres.
func (s *Server) MaintenanceURL() string { return s.urlOf("postgres") }

func (s *Server) urlOf(database string) string {
	// libpq's quoting: a path may hold quotes and backslashes.
	socket := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s.socket)
	return fmt.Sprintf("host='%s' user=postgres dbname=%s sslmode=disable", socket, database)
}

// Done is closed when the server has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// homeFor is where the server's files can lie: in dir, unless the user it must run as
// cannot get there, as below root's home. Then dir/home links to where they are, and
// without that link they are begun anew: whoever removed the directory meant the data.
func homeFor(dir string, owner account, log *slog.Logger) (string, error) {
	if owner.canReach(dir) {
		return dir, owner.own(dir)
	}
	link := filepath.Join(dir, "home")
	if home, err := os.Readlink(link); err == nil {
		return home, owner.own(home)
	}
	if err := os.MkdirAll(homes, 0o755); err != nil {
		return "", err
	}
	home, err := os.MkdirTemp(homes, "dev-")
	if err != nil {
		return "", err
	}
	log.Info("the database's files lie elsewhere, as the user it runs as cannot reach this directory", "files", home, "directory", dir)
	if err := os.Symlink(home, link); err != nil {
		return "", err
	}
	return home, owner.own(home)
}

// homes is where files lie that cannot lie where they should.
const homes = "/var/lib/eventsvc"

// socketDir is in home, unless its path is too long for a socket.
func socketDir(home string, owner account) (string, error) {
	if len(home) <= maxSocketPath {
		return home, nil
	}
	sum := sha256.Sum256([]byte(home))
	short := filepath.Join(os.TempDir(), "eventsvc-"+hex.EncodeToString(sum[:6]))
	if err := os.MkdirAll(short, 0o700); err != nil {
		return "", err
	}
	return short, owner.own(short)
}

// initialize makes the data directory, unless there is one. It is made beside its
// place and renamed, so that an interrupted one is never taken for whole.
func initialize(ctx context.Context, o ServerOptions, home, data string, owner account) error {
	if version, err := os.ReadFile(filepath.Join(data, "PG_VERSION")); err == nil {
		if made := strings.TrimSpace(string(version)); made != strconv.Itoa(o.Binaries.Major) {
			return fmt.Errorf("the data in %s was made by PostgreSQL %s, and %s is version %d; set EVENTSVC_PG_BIN to the binaries of version %s, or remove the directory to begin anew",
				data, made, o.Binaries.Dir, o.Binaries.Major, made)
		}
		return nil
	}
	half := data + ".new"
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	args := []string{"-D", half, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"}
	if !o.Durable {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(o.Binaries.Dir, "initdb"), args...)
	cmd.Dir = home
	owner.runs(cmd, false)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb failed: %w: %s", err, lastLines(string(out)))
	}
	return os.Rename(half, data)
}

func (s *Server) start(o ServerOptions, home string, owner account) error {
	args := []string{"-D", s.data, "-k", s.socket, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "logging_collector=off",
		"-c", "timezone=UTC", "-c", "log_timezone=UTC"}
	if !o.Durable {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	if o.Count && o.Binaries.hasLibrary("pg_stat_statements") {
		args = append(args, "-c", "shared_preload_libraries=pg_stat_statements")
	}
	for _, setting := range o.Settings {
		args = append(args, "-c", setting)
	}
	logFile, err := os.OpenFile(logPath(home), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer logFile.Close()
	s.cmd = exec.Command(filepath.Join(o.Binaries.Dir, "postgres"), args...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = home, logFile, logFile
	owner.runs(s.cmd, o.DieWithParent)
	started := make(chan error)
	go run(s.cmd, o.DieWithParent, started, s.done)
	if err := <-started; err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	return nil
}

func logPath(home string) string { return filepath.Join(home, "postgres.log") }

// awaitReady returns once the server's database takes connections. It makes the
// database the first time.
func (s *Server) awaitReady(ctx context.Context, home string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	pool, err := Open(ctx, s.MaintenanceURL(), PoolOptions{Name: "start", MaxConns: 1})
	if err != nil {
		return err
	}
	defer pool.Close()
	go func() {
		select {
		case <-s.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := WaitReady(ctx, pool); err != nil {
		log, _ := os.ReadFile(logPath(home))
		return fmt.Errorf("the database did not start (%w); its log is %s and ends: %s", err, logPath(home), lastLines(string(log)))
	}
	return ensureDatabase(ctx, pool)
}

func ensureDatabase(ctx context.Context, pool *pgxpool.Pool) error {
	var exists bool
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, serverDatabase).Scan(&exists); err != nil {
		return err
	}
	if exists {
		return nil
	}
	_, err := pool.Exec(ctx, `CREATE DATABASE `+serverDatabase)
	return err
}

// Stop ends the server: at once for its clients, and with everything written.
func (s *Server) Stop(ctx context.Context) {
	defer s.unlock()
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	s.cmd.Process.Signal(fastShutdown)
	patience, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	select {
	case <-s.done:
		return
	case <-patience.Done():
	}
	s.cmd.Process.Signal(immediateShutdown)
	<-s.done
}

func (s *Server) unlock() {
	if s.lock != nil {
		s.lock.Close()
		s.lock = nil
	}
}

// lastLines is the end of a program's output, in one line.
func lastLines(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], " | ")
}
