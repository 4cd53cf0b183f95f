package app

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/eventsvc/eventsvc/internal/registry"
	"github.com/eventsvc/eventsvc/internal/spelling"
)

// Lane is a lane with how many attempts may be in flight in it; 0: as many as there are
// slots.
type Lane struct {
	Name    string
	Workers int
}

// ParseLanes reads lanes separated by commas, each with or without =N.
func ParseLanes(text string) ([]Lane, error) {
	var lanes []Lane
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, count, counted := strings.Cut(strings.TrimSpace(part), "=")
		lane := Lane{Name: name}
		if err := registry.CheckLane(name); err != nil {
			return nil, fmt.Errorf("the lane %q %w", name, err)
		}
		if counted {
			n, err := strconv.Atoi(count)
			if err != nil || n < 1 || n > 10_000 {
				return nil, fmt.Errorf("%q must be a number of attempts in flight, 1 to 10000, as in mail=20", part)
			}
			lane.Workers = n
		}
		if slices.ContainsFunc(lanes, func(l Lane) bool { return l.Name == name }) {
			return nil, fmt.Errorf("the lane %q is named twice", name)
		}
		lanes = append(lanes, lane)
	}
	return lanes, nil
}

// checkLanes refuses lanes that no receiver was ever declared in: a relay that serves a
// misspelt one would do nothing, in silence.
func (p *Process) checkLanes(ctx context.Context, r *registry.Registry) error {
	lanes, err := r.Lanes(ctx)
	if err != nil {
		return err
	}
	var known []string
	for _, l := range lanes {
		known = append(known, l.Name)
	}
	for _, l := range p.Lanes {
		if !slices.Contains(known, l.Name) {
			return UnknownLane{l.Name, spelling.DidYouMean(l.Name, known)}
		}
	}
	return nil
}

// UnknownLane is a lane that no receiver was declared in. Commands exit 2 for it.
type UnknownLane struct{ name, hint string }

// Error says which, and which was probably meant.
func (e UnknownLane) Error() string {
	return fmt.Sprintf("no receiver is in a lane %q%s; declare one first", e.name, e.hint)
}
