package pg

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// Most of what goes to the database goes as arrays, a column each, of ids, texts and bodies.
// pgx takes every element out as a value of its own and grows its buffer as it goes, which
// is as much garbage as all the rest of a statement. Here the buffer grows once, and elements
// are copied into it; what other types are sent as such arrays is pgx's affair as before.

// flatArrays has a connection send slices of these types that way.
func flatArrays(m *pgtype.Map) {
	for _, oid := range []uint32{pgtype.UUIDArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID} {
		if known, ok := m.TypeForOID(oid); ok {
			if array, ok := known.Codec.(*pgtype.ArrayCodec); ok {
				m.RegisterType(&pgtype.Type{Name: known.Name, OID: oid, Codec: flatArray{array}})
			}
		}
	}
}

// flatArray is an array of one dimension, which begins at 1, in the binary format.
type flatArray struct{ *pgtype.ArrayCodec }

// PlanEncode implements [pgtype.Codec].
func (c flatArray) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		of := c.ElementType.OID
		switch value.(type) {
		case [][16]byte:
			if of == pgtype.UUIDOID {
				return flat[[16]byte]{of, func([16]byte) int { return 16 }, func(buf []byte, v [16]byte) []byte { return append(buf, v[:]...) }}
			}
		case []string:
			if of == pgtype.TextOID {
				return flat[string]{of, func(v string) int { return len(v) }, func(buf []byte, v string) []byte { return append(buf, v...) }}
			}
		case [][]byte:
			if of == pgtype.ByteaOID {
				return flat[[]byte]{of, bytesOrNull, func(buf []byte, v []byte) []byte { return append(buf, v...) }}
			}
		}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// null is the length of an element that is none.
const null = -1

func bytesOrNull(v []byte) int {
	if v == nil {
		return null
	}
	return len(v)
}

// flat encodes a slice as an array of elements of one type.
type flat[T any] struct {
	of     uint32
	length func(T) int
	put    func([]byte, T) []byte
}

// Encode implements [pgtype.EncodePlan]. The form is that of array_send in PostgreSQL.
func (f flat[T]) Encode(value any, buf []byte) ([]byte, error) {
	all := value.([]T)
	size, nulls := 5*4, uint32(0)
	for _, v := range all {
		size += 4
		if n := f.length(v); n == null {
			nulls = 1
		} else {
			size += n
		}
	}
	buf = slices.Grow(buf, size)
	for _, word := range [...]uint32{1, nulls, f.of, uint32(len(all)), 1} { // one dimension, of so many from 1 on
		buf = binary.BigEndian.AppendUint32(buf, word)
	}
	for _, v := range all {
		n := f.length(v)
		buf = binary.BigEndian.AppendUint32(buf, uint32(int32(n)))
		if n != null {
			buf = f.put(buf, v)
		}
	}
	return buf, nil
}
