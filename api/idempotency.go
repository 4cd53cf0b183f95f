package api

import (
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/eventsvc/eventsvc/internal/fire"
)

// idempotencyKey reads the key of a fire. It follows
// draft-ietf-httpapi-idempotency-key-header-07, where the key is a structured-field
// string (RFC 9651), and takes a bare key as well, since most clients send one: a
// value that begins with a quote is a string, anything else is the key itself, and
// both spell the same key.
func idempotencyKey(header http.Header) (string, error) {
	lines := header.Values("Idempotency-Key")
	switch {
	case len(lines) == 0 || len(lines) == 1 && strings.TrimSpace(lines[0]) == "":
		return "", problem("idempotency-key-missing", "send an Idempotency-Key header: 1 to 255 visible ASCII characters, the same for every retry of the same event").
			with("Link", `</docs>; rel="describedby"`)
	case len(lines) > 1:
		return "", problem("idempotency-key-invalid", "Idempotency-Key is given more than once; send it once")
	}
	key := strings.TrimSpace(lines[0])
	if strings.HasPrefix(key, `"`) {
		item, err := httpsfv.UnmarshalItem([]string{key})
		text, ok := item.Value.(string)
		if err != nil || !ok {
			return "", problem("idempotency-key-invalid", "Idempotency-Key begins with a quote but is no quoted string (RFC 9651)")
		}
		key = text
	}
	if err := fire.CheckKey(key); err != nil {
		return "", problem("idempotency-key-invalid", "Idempotency-Key "+err.Error())
	}
	return key, nil
}
