package webhook

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/eventsvc/eventsvc/internal/event"
)

// sign is the webhook-signature of Standard Webhooks 1.0: for each live secret, newest
// first, "v1," and the base64 of HMAC-SHA256 over id.timestamp.body, separated by single
// spaces. A receiver that knows any of the secrets can verify it.
//
// Key pairs sign the same content as "v1a," and the base64 of Ed25519, behind the secrets.
func sign(secrets []*event.Signer, keys []event.SigningKey, id, timestamp string, body []byte) string {
	const item = len("v1,") + 44 + 1
	out := make([]byte, 0, item*len(secrets))
	head := []byte(id + "." + timestamp + ".")
	var sum [sha256.Size]byte
	for i, secret := range secrets {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, "v1,"...)
		out = base64.StdEncoding.AppendEncode(out, secret.Append(sum[:0], head, body))
	}
	if len(keys) == 0 {
		return string(out)
	}
	content := append(head, body...)
	for _, key := range keys {
		if len(out) > 0 {
			out = append(out, ' ')
		}
		out = append(out, "v1a,"...)
		out = base64.StdEncoding.AppendEncode(out, key.Sign(content))
	}
	return string(out)
}
