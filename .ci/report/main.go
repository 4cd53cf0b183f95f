// Command report reads `go test -json`, prints what a person wants to see of it, and
// exits 1 if a test failed, a package did not build, nothing ran, or a test was skipped
// that could have run here. The one skip that is allowed is for want of a container
// engine, and with CI_EXPECT_DOCKER set not even that.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// noEngine begins the reason of every test that is skipped for want of containers
// (e2e/docker_test.go).
const noEngine = "no container engine"

// line is one event of test2json.
type line struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

type report struct {
	output                  map[string][]string // by package and test
	passed, failed, skipped int
	broken                  int // packages that failed without a failing test
	skips                   []string
	wrongSkips              int // that this machine gives no reason for
}

func main() {
	r := &report{output: map[string][]string{}}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 64<<20)
	for in.Scan() {
		var l line
		if json.Unmarshal(in.Bytes(), &l) != nil {
			fmt.Println(in.Text()) // what the compiler says
			continue
		}
		r.read(l)
	}
	os.Exit(r.finish())
}

func (r *report) read(l line) {
	key := l.Package + " " + l.Test
	switch {
	case l.Action == "build-output":
		fmt.Print(l.Output)
	case l.Action == "output":
		r.output[key] = append(r.output[key], l.Output)
	case l.Test == "" && (l.Action == "pass" || l.Action == "fail" || l.Action == "skip"):
		r.endPackage(l, key)
	case l.Action == "pass":
		r.passed++
		delete(r.output, key)
	case l.Action == "fail":
		r.failed++
		fmt.Printf("--- FAIL: %s %s (%.2fs)\n%s", l.Package, l.Test, l.Elapsed, strings.Join(r.output[key], ""))
		delete(r.output, key)
	case l.Action == "skip":
		r.skipped++
		why := reason(r.output[key])
		if os.Getenv("CI_EXPECT_DOCKER") != "" || !strings.Contains(why, noEngine) {
			r.wrongSkips++
		}
		r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", l.Package, l.Test, why))
		delete(r.output, key)
	}
}

func (r *report) endPackage(l line, key string) {
	if l.Action == "fail" {
		r.broken++
		// What is still kept is of tests that never ended, with the stacks of a timeout.
		for _, k := range slices.Sorted(maps.Keys(r.output)) {
			if k != key && strings.HasPrefix(k, key) {
				fmt.Printf("--- NEVER ENDED: %s\n%s", k, strings.Join(r.output[k], ""))
			}
		}
		fmt.Print(strings.Join(r.output[key], ""))
	}
	fmt.Printf("%-4s %s (%.1fs)\n", l.Action, l.Package, l.Elapsed)
}

// reason is what a skipped test said.
func reason(output []string) string {
	var said []string
	for _, o := range output {
		o = strings.TrimSpace(o)
		if o != "" && !strings.HasPrefix(o, "===") && !strings.HasPrefix(o, "---") {
			said = append(said, o)
		}
	}
	return strings.Join(said, " ")
}

func (r *report) finish() int {
	for _, s := range r.skips {
		fmt.Println("SKIP", s)
	}
	code := 0
	switch {
	case r.failed > 0 || r.broken > 0:
		code = 1
	case r.passed == 0:
		fmt.Println("no test ran")
		code = 1
	case r.wrongSkips > 0:
		fmt.Println("tests were skipped that could have run here")
		code = 1
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", r.passed, r.failed+r.broken, r.skipped)
	return code
}
