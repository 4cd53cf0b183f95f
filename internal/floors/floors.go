// Package floors holds the floor plan of ARCHITECTURE.md as a test: a package, and its
// tests, import only packages on lower floors. Tests alone may also use internal/pgtest
// from anywhere.
package floors

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Plan is a floor for each package, by its path within the module.
type Plan map[string]int

// ReadPlan reads the fenced block named floors of a document: lines of a number and
// the packages on that floor.
func ReadPlan(document string) (Plan, error) {
	plan, inside := Plan{}, false
	lines := bufio.NewScanner(strings.NewReader(document))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "```floors":
			inside = true
			continue
		case strings.HasPrefix(line, "```"):
			inside = false
		}
		if !inside || line == "" {
			continue
		}
		fields := strings.Fields(line)
		floor, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("the line %q of the floor plan begins with no number", line)
		}
		for _, name := range fields[1:] {
			if _, twice := plan[name]; twice {
				return nil, fmt.Errorf("%s stands on two floors", name)
			}
			plan[name] = floor
		}
	}
	if len(plan) == 0 {
		return nil, fmt.Errorf("there is no block ```floors")
	}
	return plan, nil
}

// Check lists what breaks the plan, given the imports of each package of the module.
func (p Plan) Check(imports map[string][]string) []string {
	var faults []string
	for name := range p {
		if _, exists := imports[name]; !exists {
			faults = append(faults, fmt.Sprintf("%s is on the plan, but there is no such package", name))
		}
	}
	for from, all := range imports {
		floor, known := p[from]
		if !known {
			faults = append(faults, fmt.Sprintf("%s is on no floor of the plan in ARCHITECTURE.md", from))
			continue
		}
		for _, to := range all {
			if below, known := p[to]; known && below >= floor {
				faults = append(faults, fmt.Sprintf("%s (floor %d) imports %s (floor %d): arrows only go down; move what both need to a lower floor, or let the caller pass it in", from, floor, to, below))
			}
		}
	}
	slices.Sort(faults)
	return slices.Compact(faults)
}
