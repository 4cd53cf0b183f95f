package event

import (
	"crypto/ed25519"
	"encoding/base64"
	"log/slog"
)

// Signature is a way of signing, as Standard Webhooks names them.
type Signature string

// The ways: a secret that both sides share (HMAC-SHA256), and a key pair of which
// receivers know the public half (Ed25519).
const (
	SignV1  Signature = "v1"
	SignV1a Signature = "v1a"
)

// SigningKey is the private half of an Ed25519 key pair, as its seed. Like a [Secret], it
// shows itself nowhere by accident.
type SigningKey []byte

// Sign signs a message.
func (k SigningKey) Sign(message []byte) []byte {
	return ed25519.Sign(ed25519.NewKeyFromSeed(k), message)
}

// Public is the public half in the form of Standard Webhooks: whpk_ and base64.
func (k SigningKey) Public() string {
	public, _ := ed25519.NewKeyFromSeed(k).Public().(ed25519.PublicKey)
	return "whpk_" + base64.StdEncoding.EncodeToString(public)
}

// String hides the key from every formatted message.
func (k SigningKey) String() string { return "whsk_***" }

// GoString hides it from %#v as well.
func (k SigningKey) GoString() string { return k.String() }

// LogValue hides it from structured logs.
func (k SigningKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText refuses to be part of any encoded document by accident.
func (k SigningKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
