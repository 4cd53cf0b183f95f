package registry

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Sealer keeps signing secrets unreadable in the database. A sealed secret is one
// byte of version, four of the key's id, twelve of nonce and the AES-256-GCM box,
// which is bound to its target: moved to another row, it does not open.
//
// Without keys, secrets are stored open under their own version byte, so that a
// key given later can still read them.
type Sealer struct {
	keys map[uint32]cipher.AEAD
	seal uint32 // the id of the newest key
}

const (
	versionOpen   = 0
	versionSealed = 1
	sealedHeader  = 1 + 4
)

// SealKeySize is the size of a sealing key in bytes.
const SealKeySize = 32

// ErrSealed says that a stored secret cannot be opened with the keys at hand.
var ErrSealed = errors.New("a signing secret was sealed with a key that EVENTSVC_SECRET_KEY does not hold")

// ParseSealKey reads one key of EVENTSVC_SECRET_KEY: base64 of 32 bytes.
func ParseSealKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != SealKeySize {
		return nil, fmt.Errorf("must be base64 of %d random bytes, as `openssl rand -base64 32` prints", SealKeySize)
	}
	return key, nil
}

// NewSealer seals with the first key and opens with any of them.
func NewSealer(keys ...[]byte) (*Sealer, error) {
	s := &Sealer{keys: map[uint32]cipher.AEAD{}}
	for i, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("sealing key %d: %w", i+1, err)
		}
		box, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("sealing key %d: %w", i+1, err)
		}
		id := keyID(key)
		s.keys[id] = box
		if i == 0 {
			s.seal = id
		}
	}
	return s, nil
}

// Sealing reports whether secrets are encrypted at rest.
func (s *Sealer) Sealing() bool { return len(s.keys) > 0 }

// Seal makes the stored form of a target's secret.
func (s *Sealer) Seal(target event.TargetID, secret event.Secret) []byte {
	return s.sealTo(boundTo(target), secret)
}

// SealCheck is Seal for the secret that a transaction's caller is asked with.
func (s *Sealer) SealCheck(transaction event.ID, secret event.Secret) []byte {
	return s.sealTo(boundToCheck(transaction), secret)
}

func (s *Sealer) sealTo(owner []byte, secret event.Secret) []byte {
	box, ok := s.keys[s.seal]
	if !ok {
		return append([]byte{versionOpen}, secret...)
	}
	out := make([]byte, sealedHeader+box.NonceSize(), sealedHeader+box.NonceSize()+len(secret)+box.Overhead())
	out[0] = versionSealed
	binary.BigEndian.PutUint32(out[1:], s.seal)
	nonce := out[sealedHeader:]
	rand.Read(nonce)
	return box.Seal(out, nonce, secret, owner)
}

// Newest reports whether a secret is stored as Seal would store it today.
func (s *Sealer) Newest(stored []byte) bool {
	if !s.Sealing() {
		return len(stored) > 0 && stored[0] == versionOpen
	}
	return len(stored) > sealedHeader && stored[0] == versionSealed && binary.BigEndian.Uint32(stored[1:]) == s.seal
}

// Open reads the stored form back, or answers [ErrSealed].
func (s *Sealer) Open(target event.TargetID, stored []byte) (event.Secret, error) {
	return s.openFrom(boundTo(target), stored)
}

// OpenCheck reads back what SealCheck made, or answers [ErrSealed].
func (s *Sealer) OpenCheck(transaction event.ID, stored []byte) (event.Secret, error) {
	return s.openFrom(boundToCheck(transaction), stored)
}

func (s *Sealer) openFrom(owner, stored []byte) (event.Secret, error) {
	switch {
	case len(stored) > 0 && stored[0] == versionOpen:
		return stored[1:], nil
	case len(stored) < sealedHeader || stored[0] != versionSealed:
		return nil, ErrSealed
	}
	box, ok := s.keys[binary.BigEndian.Uint32(stored[1:])]
	if !ok || len(stored) < sealedHeader+box.NonceSize() {
		return nil, ErrSealed
	}
	nonce, rest := stored[sealedHeader:sealedHeader+box.NonceSize()], stored[sealedHeader+box.NonceSize():]
	secret, err := box.Open(nil, nonce, rest, owner)
	if err != nil {
		return nil, ErrSealed
	}
	return secret, nil
}

func boundTo(target event.TargetID) []byte {
	return binary.BigEndian.AppendUint32([]byte("eventsvc target "), uint32(target))
}

func boundToCheck(transaction event.ID) []byte {
	return append([]byte("eventsvc check "), transaction[:]...)
}

// keyID names a key by its hash, which does not help to guess it.
func keyID(key []byte) uint32 {
	sum := sha256.Sum256(append([]byte("eventsvc seal key id "), key...))
	return binary.BigEndian.Uint32(sum[:])
}

// newSecret makes a signing secret of 32 random bytes.
func newSecret() event.Secret {
	secret := make(event.Secret, 32)
	rand.Read(secret)
	return secret
}
