package pgtest

import (
	"io"
	"net"
	"net/url"
	"sync"
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
	ended := make(chan struct{}, 2)
	go w.carry(client, server, ended)
	go w.carry(server, client, ended)
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
// the wire frozen.
func (w *Wire) carry(to, from net.Conn, ended chan<- struct{}) {
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
		if _, err := to.Write(buffer[:n]); err != nil {
			ended <- struct{}{}
			return
		}
	}
}
