package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Key is an API key as it stands, without what opens.
type Key struct {
	Number     int32 // of the row
	ID         event.ID
	Producer   int32  // of what is fired with it; 0 is the operator
	Owner      string // whose it is
	Name       string
	Prefix     string // how it begins
	Scopes     []Scope
	Tenant     string // "": of the whole service
	Rate       Rate
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time // to some minutes
}

// Rate bounds the calls of a key, in each process. The zero value does not.
type Rate struct {
	PerSecond int `json:"per_second"`
	Burst     int `json:"burst,omitempty"` // at once; 0 is PerSecond
}

// Draft is a key that is wanted.
type Draft struct {
	Name      string
	Owner     string // "": the name
	Scopes    []Scope
	Tenant    string
	ExpiresAt time.Time // zero: never
	Rate      Rate
}

// Bounds of a key.
const (
	maxName   = 100
	maxTenant = 255
	maxRate   = 1_000_000
)

// Check lists everything that is wrong with a draft.
func (d *Draft) Check(now time.Time) event.Flaws {
	var flaws event.Flaws
	if d.Name == "" {
		flaws.Add("/name", "is required: what the key is for")
	}
	words(&flaws, "/name", d.Name, maxName)
	words(&flaws, "/owner", d.Owner, maxName)
	words(&flaws, "/tenant", d.Tenant, maxTenant)
	d.checkScopes(&flaws)
	if !d.ExpiresAt.IsZero() && !d.ExpiresAt.After(now) {
		flaws.Add("/expires_at", "is past")
	}
	if d.Rate.PerSecond < 0 || d.Rate.PerSecond > maxRate || d.Rate == (Rate{Burst: d.Rate.Burst}) && d.Rate.Burst != 0 {
		flaws.Add("/rate/per_second", fmt.Sprintf("must be 1 to %d", maxRate))
	}
	if d.Rate.Burst < 0 || d.Rate.Burst > maxRate {
		flaws.Add("/rate/burst", fmt.Sprintf("must be 1 to %d", maxRate))
	}
	return flaws
}

func (d *Draft) checkScopes(flaws *event.Flaws) {
	names := make([]string, len(Scopes))
	for i, s := range Scopes {
		names[i] = string(s)
	}
	if len(d.Scopes) == 0 {
		flaws.Add("/scopes", "is required: one or more of "+strings.Join(names, ", "))
	}
	for i, s := range d.Scopes {
		switch {
		case !slices.Contains(Scopes, s):
			flaws.Add(fmt.Sprintf("/scopes/%d", i), "is no scope; there are "+strings.Join(names, ", "))
		case slices.Contains(d.Scopes[:i], s):
			flaws.Add(fmt.Sprintf("/scopes/%d", i), "is given twice")
		case s == Admin && d.Tenant != "":
			flaws.Add(fmt.Sprintf("/scopes/%d", i), "cannot be had by a key that is bound to a tenant: admin is about the whole service")
		}
	}
}

func words(flaws *event.Flaws, pointer, s string, most int) {
	if len(s) > most {
		flaws.Add(pointer, fmt.Sprintf("is %d bytes long; at most %d are allowed", len(s), most))
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		flaws.Add(pointer, "must not hold control characters")
	}
}

// The form of a key: esk_ and 32 random bytes in base64url.
const (
	keyPrefix   = "esk_"
	keyLength   = len(keyPrefix) + 43
	shownLength = len(keyPrefix) + 6 // 36 of the 256 bits, so that people can tell keys apart
)

// newKey makes what opens.
func newKey() string {
	var random [32]byte
	rand.Read(random[:])
	return keyPrefix + base64.RawURLEncoding.EncodeToString(random[:])
}

type hash = [sha256.Size]byte

// hashOf is what is kept of a key. A key is random, so it needs no slow hash.
func hashOf(key string) hash { return sha256.Sum256([]byte(key)) }

// wellFormed reports whether a text could be a key at all: one that could not is
// refused without a look at the database.
func wellFormed(key string) bool {
	_, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(key, keyPrefix))
	return len(key) == keyLength && strings.HasPrefix(key, keyPrefix) && err == nil
}
