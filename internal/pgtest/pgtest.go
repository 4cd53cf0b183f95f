// Package pgtest gives each test a fresh, migrated database.
//
// Where the server comes from is tried in this order: TEST_DATABASE_URL; PostgreSQL
// binaries on this machine, from which the test process starts a private server of its
// own; a container, through testcontainers. Where none works, the test fails and says
// why each did not: a test that silently passes without a database proves nothing.
package pgtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// shared is the one host of this test process, started by the first test that needs it.
var shared struct {
	once sync.Once
	host *host
	err  error
}

// Main runs the tests of a package and stops what they started. Call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.host != nil {
		shared.host.admin.Close()
		shared.host.stop()
	}
	os.Exit(code)
}

// New is a pool over a fresh, migrated database, which is dropped when the test ends.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Open(t, URL(t))
}

// Open is a pool over a database, which is closed when the test ends.
func Open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(context.Background(), url, pg.PoolOptions{Name: "test", MaxConns: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// URL reaches a fresh, migrated database, which is dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	h := theHost(t)
	template, err := h.template(context.Background())
	if err != nil {
		t.Fatalf("make the template database: %v", err)
	}
	return h.create(t, template)
}

// Empty reaches a fresh database with nothing in it.
func Empty(t testing.TB) string {
	t.Helper()
	return theHost(t).create(t, "template0")
}

func theHost(t testing.TB) *host {
	t.Helper()
	shared.once.Do(func() { shared.host, shared.err = findHost(context.Background()) })
	if shared.err != nil {
		t.Fatalf("there is no PostgreSQL to test with:\n%v", shared.err)
	}
	return shared.host
}

// create makes a database from a template.
func (h *host) create(t testing.TB, template string) string {
	t.Helper()
	ctx := context.Background()
	name := fmt.Sprintf("eventsvc_test_%d_%08x", os.Getpid(), rand.Uint32())
	if err := h.clone(ctx, name, template); err != nil {
		t.Fatalf("make a database from %s: %v", template, err)
	}
	t.Cleanup(func() {
		if _, err := h.admin.Exec(ctx, fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, name)); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return h.url(name)
}
