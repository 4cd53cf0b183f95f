package pg_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/pg"
)

func TestArgumentsStandWhereTheirNamesDoInAStatement(t *testing.T) {
	const sql = `SELECT @a, '@b', @c::text, @a -- @d`
	for range 2 { // as it is read, and as it was
		text, values, err := pg.Args{"c": "see", "a": 1}.RewriteQuery(t.Context(), nil, sql, nil)
		want, wanted, _ := pgx.NamedArgs{"c": "see", "a": 1}.RewriteQuery(t.Context(), nil, sql, nil)
		if err != nil || text != want || !slices.Equal(values, wanted) {
			t.Errorf("got %q, %v, %v; want %q, %v", text, values, err, want, wanted)
		}
	}
}

func TestAStatementThatNamesWhatIsNotGivenIsRefusedAndOneThatIsGivenMoreIsNot(t *testing.T) {
	const sql = `SELECT @one, @two`
	for range 2 { // before it was ever read, and after
		if _, _, err := (pg.Args{"one": 1, "three": 3}).RewriteQuery(t.Context(), nil, sql, nil); err == nil || !strings.Contains(err.Error(), `"two"`) {
			t.Errorf("got %v", err)
		}
		if _, values, err := (pg.Args{"one": 1, "two": nil, "three": 3}).RewriteQuery(t.Context(), nil, sql, nil); err != nil || !slices.Equal(values, []any{1, nil}) {
			t.Errorf("got %v, %v", values, err)
		}
	}
}

func BenchmarkArgs(b *testing.B) {
	const sql = `INSERT INTO somewhere SELECT * FROM unnest(@ids::uuid[], @producers::integer[], @keys::text[], @hashes::bytea[], @owes::bytea[]) -- and more`
	for b.Loop() {
		if _, _, err := (pg.Args{"ids": 1, "producers": 2, "keys": 3, "hashes": 4, "owes": 5}).RewriteQuery(b.Context(), nil, sql, nil); err != nil {
			b.Fatal(err)
		}
	}
}
