// Package access decides who may call: API keys and what they open. It is the sole
// writer of the tables that hold them, and of the audit.
package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
)

// Errors of the gate.
var (
	ErrUnauthorized = errors.New("no valid API key was sent")
	// ErrForbidden says that the caller is known, and lacks what the call needs.
	ErrForbidden = errors.New("the API key may not do that")
)

// Gate says who calls. The zero value is open: everybody is the operator, for a service
// that only its own machine can reach.
type Gate struct {
	admin *hash
	live  *prober
}

// NewGate opens to the operator's key, unless that is empty, and to those that were
// issued.
func NewGate(adminKey string, keys *Keys) *Gate {
	g := &Gate{live: newProber(keys.pool)}
	if adminKey != "" {
		sum := hashOf(adminKey)
		g.admin = &sum
	}
	return g
}

// Open reports whether everybody is let in.
func (g *Gate) Open() bool { return g.live == nil }

// Authenticate reads the Authorization header of a call and says whose it is, or
// [ErrUnauthorized]. Any other error is the database's: nobody is refused for want of it.
// A key that was revoked before the call began is refused. Comparisons take the same time
// whatever was sent.
func (g *Gate) Authenticate(ctx context.Context, authorization string) (Caller, error) {
	if g.Open() {
		return Operator("anybody"), nil
	}
	scheme, key, ok := strings.Cut(authorization, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return Caller{}, ErrUnauthorized
	}
	key = strings.TrimSpace(key)
	sum := hashOf(key)
	if g.admin != nil && subtle.ConstantTimeCompare(sum[:], g.admin[:]) == 1 {
		return Operator("operator"), nil
	}
	if !wellFormed(key) {
		return Caller{}, ErrUnauthorized
	}
	found, err := g.live.find(ctx, sum)
	if err != nil {
		return Caller{}, fmt.Errorf("look an API key up: %w", err)
	}
	if found == nil {
		return Caller{}, ErrUnauthorized
	}
	return Caller{Key: *found}, nil
}
