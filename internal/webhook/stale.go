package webhook

import (
	"sync"
	"time"
)

// Bounds of what is remembered of hosts whose HTTP/2 takes no requests.
const (
	staleFor     = time.Hour
	maxStale     = 1024
	refusalsMost = 3 // in a row, without an answer between
)

// staleHosts remembers, by host and port, who offers HTTP/2 and then takes no request over
// it. For an hour HTTP/1.1 is spoken there, so that nobody is unreachable by what their
// TLS has promised. When it is full, whichever entry goes must be learnt again.
type staleHosts struct {
	mu    sync.Mutex
	hosts map[string]staleHost
}

type staleHost struct {
	refusals int
	until    time.Time // zero: not yet
}

// has reports whether HTTP/1.1 is to be spoken to a host.
func (s *staleHosts) has(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[host]
	if h.until.IsZero() {
		return false
	}
	if time.Now().After(h.until) {
		delete(s.hosts, host)
		return false
	}
	return true
}

// add is told of a host that asks for HTTP/1.1.
func (s *staleHosts) add(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(host, staleHost{until: time.Now().Add(staleFor)})
}

// refused is told of a host that took no request, and said no more than that.
func (s *staleHosts) refused(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := staleHost{refusals: s.hosts[host].refusals + 1}
	if h.refusals >= refusalsMost {
		h.until = time.Now().Add(staleFor)
	}
	s.put(host, h)
}

// answered is told of a host that answered over HTTP/2.
func (s *staleHosts) answered(host string) { s.forget(host) }

func (s *staleHosts) forget(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.hosts, host)
}

// put requires mu.
func (s *staleHosts) put(host string, h staleHost) {
	if s.hosts == nil {
		s.hosts = map[string]staleHost{}
	}
	if _, known := s.hosts[host]; !known && len(s.hosts) >= maxStale {
		for any := range s.hosts {
			delete(s.hosts, any)
			break
		}
	}
	s.hosts[host] = h
}
