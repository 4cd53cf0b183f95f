package pgtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pooler is a PgBouncer in transaction mode: each transaction of a client may run on
// another of its few connections to the server.
type Pooler struct {
	url  string
	args []string
	cmd  *exec.Cmd
	done chan struct{}
}

// poolerSize is how many connections it keeps to a database: fewer than a process has
// to it, so that they are shared.
const poolerSize = 5

// StartPooler puts a PgBouncer in front of a database until the test ends. Where none
// is installed, the test is skipped.
func StartPooler(t testing.TB, url string) *Pooler {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Skip("there is no pgbouncer on this machine to go through")
		}
	}
	to, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	behind := fmt.Sprintf("host=%s port=%d user=%s", to.Host, to.Port, to.User)
	if to.Password != "" {
		behind += fmt.Sprintf(" password='%s'", strings.ReplaceAll(to.Password, "'", "''"))
	}
	config := filepath.Join(t.TempDir(), "pgbouncer.ini")
	content := fmt.Sprintf("[databases]\n%s = %s\n\n[pgbouncer]\npool_mode = transaction\ndefault_pool_size = %d\nmax_client_conn = 500\n"+
		"listen_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\n", to.Database, behind, poolerSize, port)
	if err := os.WriteFile(config, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &Pooler{url: fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", to.User, port, to.Database)}
	p.args = []string{program, config}
	if os.Geteuid() == 0 {
		p.args = []string{program, "-u", "nobody", config} // it does not run as root
	}
	p.Start(t)
	t.Cleanup(p.Stop)
	return p
}

// URL reaches the database through the pooler.
func (p *Pooler) URL() string { return p.url }

// Start starts it, again after a [Pooler.Stop] at the same URL, and returns once it
// serves.
func (p *Pooler) Start(t testing.TB) {
	t.Helper()
	var said strings.Builder
	p.cmd, p.done = exec.Command(p.args[0], p.args[1:]...), make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = &said, &said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	for late := time.Now().Add(20 * time.Second); ; {
		conn, err := pgx.Connect(t.Context(), p.url)
		if err == nil {
			conn.Close(t.Context())
			return
		}
		select {
		case <-p.done:
			t.Fatalf("pgbouncer ended: %s", said.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(late) {
			p.Stop()
			t.Fatalf("pgbouncer does not serve: %v: %s", err, said.String())
		}
	}
}

// Stop kills it: its clients' connections break in the middle of what they do.
func (p *Pooler) Stop() {
	p.cmd.Process.Kill()
	<-p.done
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
