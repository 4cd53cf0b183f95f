package pg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MinVersion is the oldest major version of PostgreSQL that is supported.
const MinVersion = 15

// Binaries is a directory that holds initdb and postgres.
type Binaries struct {
	Dir   string
	Major int
}

// hasLibrary reports whether a module is there for the server to load.
func (b Binaries) hasLibrary(name string) bool {
	postgres, err := filepath.EvalSymlinks(filepath.Join(b.Dir, "postgres"))
	if err != nil {
		return false
	}
	for _, dir := range []string{"lib", "lib/postgresql"} {
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(postgres), "..", dir, name+".*")); len(found) > 0 {
			return true
		}
	}
	return false
}

// ErrNoBinaries says that there is no PostgreSQL on this machine.
var ErrNoBinaries = errors.New("no PostgreSQL server binaries were found")

// places are where PostgreSQL is usually installed: Debian and Ubuntu, Red Hat, Alpine,
// Homebrew on its three homes, Postgres.app.
var places = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// FindBinaries looks in $EVENTSVC_PG_BIN, on the PATH, where pg_config points, and in
// the usual places, newest first. A directory that was named must do: it is an error
// if it does not.
func FindBinaries(ctx context.Context) (Binaries, error) {
	if named := os.Getenv("EVENTSVC_PG_BIN"); named != "" {
		b, err := inspect(ctx, named)
		if err != nil {
			return Binaries{}, fmt.Errorf("EVENTSVC_PG_BIN is %s, but %w", named, err)
		}
		return b, nil
	}
	for _, dir := range candidates(ctx) {
		if b, err := inspect(ctx, dir); err == nil {
			return b, nil
		}
	}
	return Binaries{}, ErrNoBinaries
}

func candidates(ctx context.Context) []string {
	var dirs []string
	if found, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(found))
	}
	if config, err := exec.LookPath("pg_config"); err == nil {
		if out, err := exec.CommandContext(ctx, config, "--bindir").Output(); err == nil {
			dirs = append(dirs, strings.TrimSpace(string(out)))
		}
	}
	for _, pattern := range places {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return lastNumber(b) - lastNumber(a) })
		dirs = append(dirs, found...)
	}
	return dirs
}

var digits = regexp.MustCompile(`\d+`)

func lastNumber(dir string) int {
	all := digits.FindAllString(dir, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1])
	return n
}

// inspect says whether a directory holds what is needed to run a server.
func inspect(ctx context.Context, dir string) (Binaries, error) {
	for _, name := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return Binaries{}, fmt.Errorf("there is no program %s in it", name)
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("its postgres does not run: %w", err)
	}
	major, err := strconv.Atoi(digits.FindString(string(out)))
	if err != nil || major < MinVersion {
		return Binaries{}, fmt.Errorf("its postgres is %q, and %d or later is needed", strings.TrimSpace(string(out)), MinVersion)
	}
	return Binaries{Dir: dir, Major: major}, nil
}
