package pgtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Statements prepares every statement of the package under test (sql/*.sql) against
// the migrated schema, and asks each to begin by saying what it does, as its owner.
func Statements(t *testing.T, owner string) {
	t.Helper()
	files, err := filepath.Glob("sql/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d statements: %v", len(files), err)
	}
	conn, err := New(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(content), "-- "+owner+": ") {
			t.Errorf("%s does not begin by saying what it does", file)
		}
		sql, _, err := pgx.NamedArgs{}.RewriteQuery(t.Context(), conn.Conn(), string(content), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Conn().Prepare(t.Context(), file, sql); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
