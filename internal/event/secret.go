package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"log/slog"
	"strings"
	"sync"
)

// Secret is the key that signs what a target is sent: 24 to 64 bytes. It shows
// itself nowhere by accident: formatted or logged, it is a row of stars.
type Secret []byte

// Bounds of a secret, in bytes, as Standard Webhooks 1.0 sets them.
const (
	MinSecret = 24
	MaxSecret = 64
)

const secretPrefix = "whsec_"

// ErrBadSecret is the answer to text that is no signing secret. It never repeats
// the text.
var ErrBadSecret = errors.New("is no signing secret: it must be whsec_ and the standard base64 of 24 to 64 bytes")

// ParseSecret reads whsec_ and standard base64, strictly: a character outside the
// alphabet, missing padding or a length outside the bounds is refused, because a
// lenient reader would sign with a key that nobody else derives.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, ErrBadSecret
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") || len(key) < MinSecret || len(key) > MaxSecret {
		return nil, ErrBadSecret
	}
	return key, nil
}

// Reveal is the text form. It is for the one answer that shows a secret.
func (s Secret) Reveal() string { return secretPrefix + base64.StdEncoding.EncodeToString(s) }

// String hides the secret from every formatted message.
func (s Secret) String() string { return secretPrefix + "***" }

// GoString hides it from %#v as well.
func (s Secret) GoString() string { return s.String() }

// LogValue hides it from structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText refuses to be part of any encoded document by accident.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Signer is a secret that is ready to sign. Its HMACs were keyed before, and are used again:
// keying one takes a third of what it takes to sign an event. It is safe for concurrent use,
// and shows its secret as little as that does.
type Signer struct {
	Secret
	macs sync.Pool
}

// Signer makes the secret ready to sign.
func (s Secret) Signer() *Signer {
	return &Signer{Secret: s, macs: sync.Pool{New: func() any { return hmac.New(sha256.New, s) }}}
}

// Append appends the HMAC-SHA256 of parts, one after the other.
func (s *Signer) Append(to []byte, parts ...[]byte) []byte {
	mac := s.macs.Get().(hash.Hash)
	mac.Reset()
	for _, part := range parts {
		mac.Write(part)
	}
	to = mac.Sum(to)
	s.macs.Put(mac)
	return to
}
