package event

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
)

// ID is a UUIDv7 (RFC 9562). It is a [16]byte, so that it binds to a uuid column
// as it is. In the API it wears a prefix; see [ID.Text].
type ID [16]byte

// Prefix says what an ID names. Ids cross the API as TypeID text: the prefix, an
// underscore, and 26 characters of Crockford's base32.
type Prefix string

// The prefixes of the API.
const (
	EventPrefix    Prefix = "evt"
	DeliveryPrefix Prefix = "dlv"
	KeyPrefix      Prefix = "key"  // API keys
	AuditPrefix    Prefix = "aud"  // noted changes
	TxPrefix       Prefix = "tx"   // transactions
	TestPrefix     Prefix = "test" // webhook-id of a request that nothing is owed for
)

// ErrBadID is the answer to text that is not an ID of the wanted prefix.
var ErrBadID = errors.New("not an id")

// lastTick is the newest timestamp handed out, in units of 1/4096 ms. Ids of one
// process are strictly increasing, so rows written in one batch keep their order.
var lastTick atomic.Int64

// NewID makes an ID for the given moment. The first 48 bits are its Unix
// milliseconds, the next 12 its place within the millisecond; the rest is random.
// Ids are names, not secrets: nothing may be authorised by knowing one.
func NewID(now time.Time) ID {
	tick := now.UnixMilli()<<12 | int64(now.Nanosecond()%int(time.Millisecond))<<12/int64(time.Millisecond)
	for {
		last := lastTick.Load()
		next := max(tick, last+1)
		if lastTick.CompareAndSwap(last, next) {
			tick = next
			break
		}
	}
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(tick>>12)<<16|0x7000|uint64(tick&0xfff))
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()&(1<<62-1)|1<<63)
	return id
}

// Time is the moment the ID was made for, to the millisecond.
func (id ID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// IsZero reports whether the ID names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders ids as the database orders uuids: byte by byte, which for ids
// made here is also by time.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// IDAfter is the smallest ID above another: what lies below it ends with that one.
func IDAfter(id ID) ID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// Text is the ID as the API shows it, for example evt_01jxkg2c8zf3v9e4m6r7t8w9ya.
func (id ID) Text(p Prefix) string {
	out := make([]byte, 0, len(p)+1+26)
	out = append(out, p...)
	out = append(out, '_')
	// 130 bits in 26 digits: the first digit carries the top three bits alone.
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	for shift := 125; shift >= 0; shift -= 5 {
		out = append(out, crockford[digit(hi, lo, shift)])
	}
	return string(out)
}

// digit is the five bits of the 128-bit number hi:lo that start at bit shift.
func digit(hi, lo uint64, shift int) uint64 {
	switch {
	case shift >= 64:
		return hi >> (shift - 64) & 31
	case shift > 59:
		return (hi<<(64-shift) | lo>>shift) & 31
	default:
		return lo >> shift & 31
	}
}

// ParseID reads [ID.Text] back. It accepts lower case only, so that one ID has one
// spelling, and answers [ErrBadID] for anything else.
func ParseID(p Prefix, text string) (ID, error) {
	rest, ok := strings.CutPrefix(text, string(p)+"_")
	if !ok || len(rest) != 26 || rest[0] > '7' {
		return ID{}, fmt.Errorf("%w of the form %s_ and 26 characters", ErrBadID, p)
	}
	var hi, lo uint64
	for i := range len(rest) {
		v := strings.IndexByte(crockford, rest[i])
		if v < 0 {
			return ID{}, fmt.Errorf("%w: %q is no digit of it", ErrBadID, rest[i])
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	var id ID
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, nil
}
