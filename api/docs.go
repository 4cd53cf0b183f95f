package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"
)

// mountDocs mounts the specification and the pages that show it. Their assets are
// embedded, so they work without a network.
func (s *server) mountDocs(router chi.Router, spec []byte) {
	sum := sha256.Sum256(spec)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	router.Get("/openapi.yaml", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		w.Write(spec)
	})
	docs := v5emb.NewHandlerWithConfig(swgui.Config{
		Title: "eventsvc API", SwaggerJSON: "/openapi.yaml", BasePath: "/docs/",
		SettingsUI: map[string]string{"persistAuthorization": "true", "tryItOutEnabled": "true"},
	})
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		// The page's own script is inline; nothing may be loaded from anywhere else.
		h.Set("Content-Security-Policy", "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'")
		docs.ServeHTTP(w, r)
	})
	router.Get("/docs", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/docs/", http.StatusMovedPermanently)
	})
	router.Method(http.MethodGet, "/docs/*", guarded)
}
