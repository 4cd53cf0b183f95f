package pgtest

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Wire is a TCP proxy before a server, which can fail in the ways that networks do.
type Wire struct {
	listener net.Listener
	user     *url.Userinfo
	database string

	mu      sync.Mutex
	address []string // network and address of the server
	ice     bool
	snip    *snip
	open    map[net.Conn]bool
}

// StartWire puts a wire before the database until the test ends.
func StartWire(t testing.TB, behind string) *Wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{listener: l, open: map[net.Conn]bool{}}
	w.Aim(t, behind)
	go w.accept()
	t.Cleanup(func() { l.Close(); w.Cut() })
	return w
}

// URL reaches the database through the wire.
func (w *Wire) URL() string {
	u := url.URL{Scheme: "postgres", User: w.user, Host: w.listener.Addr().String(), Path: "/" + w.database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Aim leads connections that are made from now on to a database, which must be of the
// same user and name as the first. Those that are open stay where they are.
func (w *Wire) Aim(t testing.TB, behind string) {
	t.Helper()
	to, err := pgx.ParseConfig(behind)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(to.Host, to.Port)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.user, w.database, w.address = url.UserPassword(to.User, to.Password), to.Database, []string{network, address}
}

// Freeze stops every byte, on connections that are open and on new ones, which are
// still taken: nobody is told, as when a firewall forgets.
func (w *Wire) Freeze() { w.freeze(true) }

// Thaw lets new connections through. Those that were used while it was frozen stay
// silent, and the server keeps its ends of them.
func (w *Wire) Thaw() { w.freeze(false) }

func (w *Wire) freeze(ice bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ice = ice
}

// Cut breaks every connection.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		c.Close()
	}
}

// snip is where a wire is cut: at what a client says.
type snip struct {
	part   string
	passed bool
}

// Snip cuts, once, the connection on which a client next says something: before that has
// passed, or, with passed, after the server has done it and before its answer arrives.
func (w *Wire) Snip(part string, passed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snip = &snip{part, passed}
}

// snips reports whether to cut at what a client says, and whether it passes before.
func (w *Wire) snips(said []byte) (cut, passed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.snip == nil || !strings.Contains(string(said), w.snip.part) {
		return false, false
	}
	passed, w.snip = w.snip.passed, nil
	return true, passed
}

func (w *Wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		go w.join(client)
	}
}

// join carries one connection. One that is made while the wire is frozen never gets
// through: a server that met it would wait for its first word.
func (w *Wire) join(client net.Conn) {
	defer w.close(client)
	w.keep(client)
	if w.frozen() {
		io.Copy(io.Discard, client)
		return
	}
	w.mu.Lock()
	to := w.address
	w.mu.Unlock()
	server, err := net.Dial(to[0], to[1])
	if err != nil {
		return
	}
	defer w.close(server)
	w.keep(server)
	ended, mute := make(chan struct{}, 2), new(atomic.Bool)
	go w.carry(client, server, ended, func([]byte) (bool, bool) { return mute.Load(), false })
	go w.carry(server, client, ended, func(said []byte) (bool, bool) {
		cut, passed := w.snips(said)
		mute.Store(cut && passed)
		return cut, passed
	})
	<-ended
}

func (w *Wire) keep(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[c] = true
}

func (w *Wire) close(c net.Conn) {
	c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
}

func (w *Wire) frozen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ice
}

// carry copies one direction until its end, or drops for ever what comes once it found
// the wire frozen. What is cut at what passes is not the end of the connection yet.
func (w *Wire) carry(to, from net.Conn, ended chan<- struct{}, at func([]byte) (cut, passed bool)) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			ended <- struct{}{}
			return
		}
		if w.frozen() {
			io.Copy(io.Discard, from)
			return
		}
		if cut, passed := at(buffer[:n]); cut && !passed {
			ended <- struct{}{}
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			ended <- struct{}{}
			return
		}
	}
}
