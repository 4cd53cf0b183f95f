package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// line is a connection as it is seen from below TLS. net/http keeps a connection of HTTP/2
// for as long as it can, whatever an attempt came to, and reads it without end. A line
// bounds both: what attempts found wanting is closed once none uses it, as HTTP/1.1 would,
// and what a peer may send is measured by the attempts under way. One that carries
// HTTP/1.1 is let be.
type line struct {
	net.Conn
	of   *lines
	host string

	mu        sync.Mutex
	joined    bool // an attempt used it
	spoils    bool // one of them found it wanting
	uses      int
	allowance int           // bytes that may yet be read
	sealed    int           // records written that look like data
	expected  int           // of them, until the peer's settings were read; 0: not known yet
	settled   bool          // they were
	ready     chan struct{} // closed then
	severed   bool          // we closed it, and nobody joins any more
	gone      chan struct{} // closed as net/http closes it
	going     sync.Once
}

// Bounds of lines.
const (
	// allowancePerAttempt is far more than headers, trailers and a window of the body.
	allowancePerAttempt = 1 << 20
	// dialsPerAttempt is how many connections an attempt opens before it takes it that the
	// peer's HTTP/2 is full: net/http would go on without end.
	dialsPerAttempt = 4
	// triesPerAttempt are the connections that it is given before, new or not.
	triesPerAttempt = 16
	// unusedPerHost is how many connections of HTTP/2 stay open without an attempt on them.
	// One is the rule; more are kept by a peer that takes one request at a time, and by one
	// that has us believe that none of them can be used.
	unusedPerHost = 32
	// settingsPatience is how long the first requests of a connection wait for the peer to say
	// how many it takes at once. It has to say so first of all.
	settingsPatience = time.Second
)

var (
	errFlood   = errors.New("the receiver sent more than any answer is made of")
	errCrowded = errors.New("no connection of HTTP/2 takes a request")
	errAnother = errors.New("a connection of HTTP/2 turned out full or closed")
)

// dialler is the context key of the sighting that a connection is dialled for.
type dialler struct{}

// lines are those of a courier that may carry HTTP/2.
type lines struct {
	mu     sync.Mutex
	unused map[string][]*line // by host and port, the longest unused first
	fresh  map[string][]*line // as those, and not used yet
}

func newLines() *lines { return &lines{unused: map[string][]*line{}, fresh: map[string][]*line{}} }

// dial makes lines of what another dials.
func (ls *lines) dial(by func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		seen, _ := ctx.Value(dialler{}).(*sighting)
		if !seen.mayDial() {
			return nil, errCrowded
		}
		conn, err := by(ctx, network, host)
		if err != nil {
			return nil, err
		}
		l := &line{Conn: conn, of: ls, host: host, allowance: allowancePerAttempt, ready: make(chan struct{}), gone: make(chan struct{})}
		seen.dialled(l)
		ls.rest(l, ls.fresh, idlePerHost)
		return l, nil
	}
}

// lineOf is the line under a connection of HTTP/2 that an attempt was given, or nil.
func lineOf(conn net.Conn) *line {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	l, _ := secure.NetConn().(*line)
	if l == nil {
		return nil
	}
	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		l.of.used(l)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = 2 // the preface, and the acknowledgement
	if secure.ConnectionState().Version >= tls.VersionTLS13 {
		l.expected++ // the end of the handshake
	}
	l.settle()
	return l
}

// Read fails once more was read than the attempts account for.
func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined {
		if l.allowance -= n; l.allowance < 0 {
			return 0, errFlood
		}
	}
	return n, err
}

// Write watches for the acknowledgement of the peer's settings, which is what net/http
// writes next after the preface where no request is let go before.
func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	if !l.settled {
		l.sealed += sealed(p)
		l.settle()
	}
	l.mu.Unlock()
	return l.Conn.Write(p)
}

// sealed counts the records of TLS that look like data. Those of TLS 1.3 do from the end of
// the handshake.
func sealed(records []byte) (n int) {
	const header, data = 5, 23
	for len(records) >= header {
		if records[0] == data {
			n++
		}
		records = records[min(len(records), header+int(records[3])<<8+int(records[4])):]
	}
	return n
}

// settle requires mu.
func (l *line) settle() {
	if !l.settled && l.expected > 0 && l.sealed >= l.expected {
		l.settled = true
		close(l.ready)
	}
}

// awaitSettings waits until net/http knows how many requests the peer takes at once. Those
// that it put on the line before would be refused, and an attempt is not sent twice.
func (l *line) awaitSettings(ctx context.Context) {
	if l == nil {
		return
	}
	patience, cancel := context.WithTimeout(ctx, settingsPatience)
	defer cancel()
	select {
	case <-l.ready:
	case <-patience.Done():
	}
}

// Close also forgets the line. It is net/http's, which by then puts no request on it.
func (l *line) Close() error {
	l.of.used(l)
	l.going.Do(func() { close(l.gone) })
	return l.Conn.Close()
}

// awaitGone waits until net/http knows that a severed line is closed: it learns that by
// reading, and puts requests on the line before.
func (l *line) awaitGone(ctx context.Context) {
	select {
	case <-l.gone:
	case <-ctx.Done():
	}
}

// join is called by an attempt that is given the line, and refuses it one that is severed.
// A nil line is none.
func (l *line) join() bool {
	if l == nil {
		return true
	}
	l.of.used(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.severed {
		return false
	}
	l.joined = true
	l.uses++
	l.allowance += allowancePerAttempt
	return true
}

// leave is called once by each who joined: good says that the answer came to its end.
func (l *line) leave(good bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.uses--
	l.spoils = l.spoils || !good
	l.allowance = min(l.allowance, allowancePerAttempt*(l.uses+1))
	unused, spoils := l.uses == 0, l.spoils
	l.mu.Unlock()
	switch {
	case unused && spoils:
		l.severUnused()
	case unused:
		l.of.rest(l, l.of.unused, unusedPerHost)
	}
}

// sever closes the line at once, saying goodbye to nobody: TLS would wait for a peer that
// does not read.
func (l *line) sever() { l.severIf(func() bool { return true }) }

// severUnused closes the line if no attempt has it.
func (l *line) severUnused() { l.severIf(func() bool { return l.uses == 0 }) }

// severUnjoined closes the line if no attempt ever had it.
func (l *line) severUnjoined() { l.severIf(func() bool { return !l.joined }) }

// severIf closes the line if it may, which is asked under mu: so nobody joins between.
func (l *line) severIf(may func() bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	now := may()
	l.severed = l.severed || now
	l.mu.Unlock()
	if !now {
		return
	}
	l.of.used(l)
	inner := l.Conn
	for secure, ok := inner.(*tls.Conn); ok; secure, ok = inner.(*tls.Conn) {
		inner = secure.NetConn()
	}
	inner.Close()
}

// used is told of a line that is in use, or gone.
func (ls *lines) used(l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, of := range []map[string][]*line{ls.unused, ls.fresh} {
		rest := slices.DeleteFunc(of[l.host], func(other *line) bool { return other == l })
		if of[l.host] = rest; len(rest) == 0 {
			delete(of, l.host)
		}
	}
}

// rest is told of a line that no attempt uses, any more or yet, and closes the one that was
// so for longest where there are more than most.
func (ls *lines) rest(l *line, of map[string][]*line, most int) {
	ls.mu.Lock()
	all := append(of[l.host], l)
	var oldest *line
	if len(all) > most {
		oldest = all[0]
		all = slices.Delete(all, 0, 1)
	}
	of[l.host] = all
	ls.mu.Unlock()
	oldest.severUnused()
}
