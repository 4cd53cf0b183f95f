package webhook

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// sighting is what is seen of a request on the wire, and the hold on the connection that
// carries it.
type sighting struct {
	began             time.Time
	mu                sync.Mutex // the transport may still dial when the attempt has ended
	dns, connect, tls time.Time
	timings           event.Timings
	line              *line                   // that carries the request, if it is one of HTTP/2
	opened            []*line                 // for it, whoever uses them
	sent              bool                    // its headers left, or may have
	tried             bool                    // a line was taken since the last try began
	giveUp            context.CancelCauseFunc // ends that try
}

func (s *sighting) trace(ctx context.Context) *httptrace.ClientTrace {
	note := func(at *time.Time) { s.mu.Lock(); *at = time.Now(); s.mu.Unlock() }
	took := func(since *time.Time, ms *float64) {
		s.mu.Lock()
		*ms = milliseconds(time.Since(*since))
		s.mu.Unlock()
	}
	return &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { note(&s.dns) },
		DNSDone:           func(httptrace.DNSDoneInfo) { took(&s.dns, &s.timings.DNS) },
		ConnectStart:      func(string, string) { note(&s.connect) },
		ConnectDone:       func(string, string, error) { took(&s.connect, &s.timings.Connect) },
		TLSHandshakeStart: func() { note(&s.tls) },
		TLSHandshakeDone:  func(tls.ConnectionState, error) { took(&s.tls, &s.timings.TLS) },
		GotConn: func(info httptrace.GotConnInfo) {
			s.mu.Lock()
			s.timings.Reused = info.Reused
			s.mu.Unlock()
			s.take(ctx, lineOf(info.Conn))
		},
		WroteHeaders:         s.leaves,
		GotFirstResponseByte: s.firstByte,
	}
}

// reuse notes that the request goes out by a connection that was there.
func (s *sighting) reuse() { s.mu.Lock(); s.timings.Reused = true; s.mu.Unlock() }

// leaves notes that the request leaves, or may have.
func (s *sighting) leaves() { s.mu.Lock(); s.sent = true; s.mu.Unlock() }

// firstByte notes that the answer begins.
func (s *sighting) firstByte() {
	s.mu.Lock()
	s.timings.FirstByte = milliseconds(time.Since(s.began))
	s.mu.Unlock()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// finish adds to a verdict when the attempt was and what was seen of it.
func (s *sighting) finish(v event.Verdict) event.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.StartedAt, v.Duration = s.began, time.Since(s.began)
	v.Evidence = &event.Evidence{Timings: s.timings}
	return v
}

// try begins to look for a line that takes the request. The context is for the request.
func (s *sighting) try(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, dialler{}, s))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried, s.giveUp = false, cancel
	return ctx
}

// take is given the line that the request goes out by. Where it is given another, the first
// turned out full or closed before the request has left. The try ends then, before anything
// is written: net/http would go on to look, and wait for seconds between. One that is severed
// is waited out: what net/http puts on it before it knows would be lost, unsent and untold.
func (s *sighting) take(ctx context.Context, l *line) {
	joined := l
	if !l.join() {
		joined = nil
	}
	s.mu.Lock()
	before, again, giveUp := s.line, s.tried, s.giveUp
	s.line, s.tried = joined, true
	s.mu.Unlock()
	before.leave(true)
	switch {
	case again && l != nil:
		giveUp(errAnother)
	case joined != l:
		l.awaitGone(ctx)
	default:
		l.awaitSettings(ctx)
	}
}

// leave lets go of the line: good says that the answer came to its end.
func (s *sighting) leave(good bool) {
	s.mu.Lock()
	l := s.line
	s.line = nil
	s.mu.Unlock()
	l.leave(good)
}

func (s *sighting) sever() {
	s.mu.Lock()
	l := s.line
	s.mu.Unlock()
	l.sever()
}

// unsent reports whether a request failed for want of a connection that takes it, before
// anything of it was written.
func (s *sighting) unsent(ctx context.Context, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.sent && (nobodyTook(err) || context.Cause(ctx) == errAnother)
}

// mayDial reports whether another connection may be opened for the request.
func (s *sighting) mayDial() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.opened) < dialsPerAttempt
}

func (s *sighting) dialled(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, l)
}

// dropUnused closes what was opened for the request and carries nothing.
func (s *sighting) dropUnused() {
	s.mu.Lock()
	opened := s.opened
	s.mu.Unlock()
	for _, l := range opened {
		l.severUnjoined()
	}
}

// Bounds of how long the body of an answer holds an attempt once the headers are in.
const (
	bodyPatience = time.Second
	// lastPatience later a body that still holds it is not net/http's to end: what it wants
	// to write waits behind another request of the connection whose peer does not read.
	lastPatience = 500 * time.Millisecond
)

// hear has an answer's body read, and closes it. It may break, hang or never end: it gets a
// moment. Over HTTP/2 an end of the context does not end a read while the request's own
// body waits for leave to be sent; closing does. A body is closed once: net/http counts
// what was not read towards what the peer may send, each time. One of cleartext, which has
// no line to be held by, can do none of that where all of it is here already.
func (s *sighting) hear(resp *http.Response, cancel func(), read func() (whole bool)) {
	if b, clear := resp.Body.(*clearBody); clear && b.here(resp.ContentLength) {
		defer resp.Body.Close()
		read()
		return
	}
	hangUp := sync.OnceFunc(func() { resp.Body.Close() })
	late := time.AfterFunc(bodyPatience, func() { cancel(); hangUp() })
	stuck := time.AfterFunc(bodyPatience+lastPatience, s.sever)
	whole := read()
	hangUp()
	stuck.Stop()
	s.leave(late.Stop() && whole)
}
