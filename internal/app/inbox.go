package app

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/eventsvc/eventsvc/internal/registry"
	"github.com/eventsvc/eventsvc/internal/webhook"
)

// inbox is a receiver for people who have none yet: it verifies what arrives, prints
// it, and answers 200. Only `eventsvc dev` has one.
type inbox struct {
	book *registry.Book
	out  io.Writer
}

// maxShown bounds what is printed of a body.
const maxShown = 2 << 10

// ServeHTTP takes one webhook.
func (i inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	verdict := "signature verified"
	if err := i.verify(r.Header, body); err != nil {
		verdict = "NOT verified: " + err.Error()
	}
	if len(body) > maxShown {
		body = append(body[:maxShown:maxShown], "…"...)
	}
	fmt.Fprintf(i.out, "inbox: %s arrived as %s, attempt %s, %s\n       %s\n",
		r.Header.Get("Eventsvc-Event-Type"), r.Header.Get("Webhook-Id"), r.Header.Get("Eventsvc-Attempt"), verdict, body)
	w.WriteHeader(http.StatusOK)
}

func (i inbox) verify(h http.Header, body []byte) error {
	target := i.book.Find(h.Get("Eventsvc-Receiver"), h.Get("Eventsvc-Target"))
	if target == nil {
		return fmt.Errorf("receiver %q is not declared here", h.Get("Eventsvc-Receiver"))
	}
	return webhook.Verify(h, body, time.Now(), target.Signers...)
}
