package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// Check is one thing that the process needs to do its work.
type Check struct {
	Name string
	OK   bool
}

// mountPages mounts what is not part of the API proper: health, metrics and the pages
// about problems.
func (s *server) mountPages(router chi.Router) {
	s.mountHealth(router)
	router.Get("/problems/{code}", kindHandler)
	if s.Inbox != nil {
		router.Method(http.MethodPost, "/dev/inbox", s.Inbox)
	}
	if s.Metrics != nil {
		router.Method(http.MethodGet, "/metrics", s.Metrics)
	}
}

func (s *server) mountHealth(router chi.Router) {
	router.Get("/livez", s.live)
	router.Get("/readyz", s.ready)
}

// live depends on nothing: a process that answers is alive.
func (s *server) live(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

// ready says whether the process can do its work, and with ?verbose which checks
// passed. It tells no more of a failure than its name: the log has the rest.
func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	checks := s.Ready(r.Context())
	query := r.URL.Query()
	var lines strings.Builder
	good := true
	for _, c := range checks {
		switch {
		case query.Has("exclude") && query.Get("exclude") == c.Name:
			fmt.Fprintf(&lines, "[+]%s excluded\n", c.Name)
		case c.OK:
			fmt.Fprintf(&lines, "[+]%s ok\n", c.Name)
		default:
			good = false
			fmt.Fprintf(&lines, "[-]%s failed\n", c.Name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if !good {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, lines.String())
		return
	}
	if query.Has("verbose") {
		fmt.Fprint(w, lines.String())
	}
	fmt.Fprintln(w, "ok")
}
