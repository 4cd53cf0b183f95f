package pg_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// What is sent is what pgx itself would send, byte for byte.
func TestArraysAreSentAsPgxWouldSendThem(t *testing.T) {
	ours, theirs := pgtype.NewMap(), pgtype.NewMap()
	pg.FlatArrays(ours)
	for name, array := range map[string]struct {
		oid   uint32
		value any
	}{
		"ids":              {pgtype.UUIDArrayOID, [][16]byte{{1, 2, 3}, {255}, {}}},
		"no ids":           {pgtype.UUIDArrayOID, [][16]byte{}},
		"ids that are not": {pgtype.UUIDArrayOID, [][16]byte(nil)},
		"ids or none":      {pgtype.UUIDArrayOID, []*[16]byte{{1}, nil}},
		"texts":            {pgtype.TextArrayOID, []string{"a", "", "ä\n", strings.Repeat("x", 5000)}},
		"no texts":         {pgtype.TextArrayOID, []string{}},
		"texts or none":    {pgtype.TextArrayOID, []*string{nil, new(string)}},
		"bodies":           {pgtype.ByteaArrayOID, [][]byte{{0, 255}, {}, nil, bytes.Repeat([]byte("y"), math.MaxUint16+1)}},
		"bodies, whole":    {pgtype.ByteaArrayOID, [][]byte{{1}, {}}},
		"no bodies":        {pgtype.ByteaArrayOID, [][]byte{}},
	} {
		for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
			before := []byte("before")
			got, err := ours.Encode(array.oid, format, array.value, slices.Clone(before))
			want, errWant := theirs.Encode(array.oid, format, array.value, slices.Clone(before))
			if err != nil || errWant != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("%s: got %q, %v; want %q, %v", name, got, err, want, errWant)
			}
		}
	}
}

func BenchmarkArrays(b *testing.B) {
	m := pgtype.NewMap()
	pg.FlatArrays(m)
	bodies := make([][]byte, 32)
	for i := range bodies {
		bodies[i] = bytes.Repeat([]byte("y"), 1<<10)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Encode(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, bodies, make([]byte, 0, 256)); err != nil {
			b.Fatal(err)
		}
	}
}
