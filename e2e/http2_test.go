package e2e

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// openTLS is a receiver over TLS that offers HTTP/2, and a setting that has a process trust
// it. It tells by which protocol each request came.
func openTLS(t *testing.T) (server *httptest.Server, trusted string, protocols <-chan string) {
	t.Helper()
	seen := make(chan string, 100)
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Proto
		w.Write([]byte("heard by " + r.Proto))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return server, "SSL_CERT_FILE=" + file, seen
}

func TestWebhooksSpeakHTTP2WhereItIsOfferedUnlessToldNotTo(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{"EVENTSVC_HTTP2=true": "HTTP/2.0", "EVENTSVC_HTTP2=false": "HTTP/1.1"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			server, trusted, protocols := openTLS(t)
			p := start(t, pgtest.URL(t), []string{trusted, setting}, "serve")
			p.declare(t, "r", `{"events":["*"],"url":"`+server.URL+`"}`)
			for _, key := range []string{"one", "two"} {
				a := p.settled(t, p.fire(t, key, `{"type":"a.b","data":1}`).at("deliveries.0.id"), "succeeded")
				if a.list("attempt_log") != 1 || a.at("attempt_log.0.outcome") != "succeeded" || a.at("attempt_log.0.http_status") != "200" || a.at("attempt_log.0.response.body") != "heard by "+want {
					t.Errorf("got %s", a.text)
				}
				if got := <-protocols; got != want {
					t.Errorf("spoke %s", got)
				}
			}
			if strings.Contains(p.log.String(), `"level":"ERROR"`) {
				t.Error("there are errors in the log")
			}
		})
	}
}
