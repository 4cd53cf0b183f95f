package api

import (
	"net/http"
	"net/http/pprof"

	"github.com/go-chi/chi/v5"
)

// NewOps is what operators and their machines ask of a process, for an address that
// nobody else reaches: health, metrics and pprof. It asks for no key.
func NewOps(rooms Rooms) http.Handler {
	s := &server{Rooms: rooms, log: rooms.Log}
	router := chi.NewRouter()
	router.Use(withRequestID, plainly, s.recoverPanics, refuseOtherOrigins)
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		notFound("there is nothing here; there are /livez, /readyz, /metrics and /debug/pprof/").write(w, r)
	})
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		methodNotAllowed(router, r).write(w, r)
	})
	s.mountHealth(router)
	router.Method(http.MethodGet, "/metrics", s.Metrics)
	router.HandleFunc("/debug/pprof/*", pprof.Index)
	router.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	router.HandleFunc("/debug/pprof/profile", pprof.Profile)
	router.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	router.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return router
}
