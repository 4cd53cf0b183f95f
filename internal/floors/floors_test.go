package floors

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// importsOf lists the imports within a module of each of its packages and their tests,
// by their paths within it.
func importsOf(t *testing.T, dir string) map[string][]string {
	t.Helper()
	look(t, dir)
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Module", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
			Module                             struct{ Path string }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return imports
		} else if err != nil {
			t.Fatal(err)
		}
		within := func(path string) string { return strings.TrimPrefix(path, p.Module.Path+"/") }
		name := within(p.ImportPath)
		// A test may import the package it tests and, from any floor, the database it needs.
		tests := slices.DeleteFunc(slices.Concat(p.TestImports, p.XTestImports), func(to string) bool {
			return to == p.ImportPath || within(to) == "internal/pgtest"
		})
		imports[name] = []string{}
		for _, to := range append(p.Imports, tests...) {
			if strings.HasPrefix(to, p.Module.Path+"/") {
				imports[name] = append(imports[name], within(to))
			}
		}
	}
}

// look opens every directory of a module. go list reads them in a process of its own,
// which the test cache does not see: without this, a passing answer would be kept after
// an import was added.
func look(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != dir && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func readPlan(t *testing.T, file string) Plan {
	t.Helper()
	document, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := ReadPlan(string(document))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestArrowsOnlyGoDown(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	imports := importsOf(t, root)
	if len(imports) < 10 {
		t.Fatalf("only %d packages were looked at: %v", len(imports), imports)
	}
	for _, fault := range readPlan(t, filepath.Join(root, "ARCHITECTURE.md")).Check(imports) {
		t.Error(fault)
	}
}

func TestAPlantedBadImportIsFound(t *testing.T) {
	dir := filepath.Join("testdata", "planted")
	faults := readPlan(t, filepath.Join(dir, "PLAN.md")).Check(importsOf(t, dir))
	if len(faults) != 2 || !strings.Contains(faults[0], "cellar (floor 0) imports attic (floor 1)") || !strings.Contains(faults[1], "yard (floor 0) imports attic (floor 1)") {
		t.Errorf("got %q, want the import that goes up and the test's that does", faults)
	}
}

func TestTwoRoomsOfOneFloorDoNotImportEachOther(t *testing.T) {
	plan := Plan{"a": 1, "b": 1}
	if faults := plan.Check(map[string][]string{"a": {"b"}, "b": nil}); len(faults) != 1 {
		t.Errorf("got %q, want one fault", faults)
	}
}

func TestThePlanAndThePackagesAreTheSame(t *testing.T) {
	faults := Plan{"a": 1, "gone": 0}.Check(map[string][]string{"a": nil, "new": nil})
	if len(faults) != 2 {
		t.Errorf("got %q, want that gone does not exist and new is not on the plan", faults)
	}
}
