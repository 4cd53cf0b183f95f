// Package access decides who may call: API keys and what they open. It is the sole
// writer of the tables that hold them.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
)

// Errors of the gate.
var (
	ErrUnauthorized = errors.New("no valid API key was sent")
	ErrForbidden    = errors.New("the API key may not do that")
)

// Gate lets calls in. The zero value is open to everybody, for a service that only
// its own machine can reach.
type Gate struct {
	admin *[sha256.Size]byte
}

// NewGate opens to the operator's key alone; an empty key makes an open gate.
func NewGate(adminKey string) *Gate {
	if adminKey == "" {
		return &Gate{}
	}
	sum := sha256.Sum256([]byte(adminKey))
	return &Gate{admin: &sum}
}

// Check reads the Authorization header of a call. The comparison takes the same time
// whatever was sent.
func (g *Gate) Check(authorization string) error {
	if g.admin == nil {
		return nil
	}
	scheme, key, ok := strings.Cut(authorization, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ErrUnauthorized
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(key)))
	if subtle.ConstantTimeCompare(sum[:], g.admin[:]) != 1 {
		return ErrUnauthorized
	}
	return nil
}
