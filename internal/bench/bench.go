package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Options say what is measured, and on what.
type Options struct {
	DatabaseURL string        // a server on which databases can be made; what is there is not touched
	Scenarios   []string      // by name; none: all of them
	Span        time.Duration // of one measurement
	Quick       bool          // a fiftieth of the rows, and short spans: whether it runs, not how fast
	Profiles    string        // a directory for CPU profiles of the service, or ""
	Beside      string        // the program of bench/river, or "": that scenario is left out
	Version     string
	Program     string                               // the binary that is measured
	Tell        func(at, of int, name, doing string) // how far it has come, or nil
	Log         io.Writer                            // what the service said where a scenario failed
}

// quickShare is what -quick leaves of the numbers of rows.
const quickShare = 50

// scenario is one thing that is measured.
type scenario struct {
	name    string
	about   string
	asserts string
	bound   time.Duration // it has failed when it takes longer
	alone   bool          // it needs neither the service nor a database
	// beside says that its costs are compared with those of a drain over an empty database,
	// which is measured right before it: what a machine can do changes within minutes.
	beside bool
	run    func(ctx context.Context, s *stage) error
}

var scenarios = []scenario{fires, bulk, drain, latency, fanout, storm, slow, pending, dead, snapshot, history, prune, river}

// Names are those of the scenarios, in their order.
func Names() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// UnknownScenario is a name that no scenario has.
type UnknownScenario string

// Error says which names would do.
func (u UnknownScenario) Error() string {
	return fmt.Sprintf("there is no scenario %q; there are %s", string(u), strings.Join(Names(), ", "))
}

func chosen(names []string) ([]scenario, error) {
	if len(names) == 0 {
		return scenarios, nil
	}
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, UnknownScenario(name)
		}
	}
	return slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool { return !slices.Contains(names, s.name) }), nil
}

// paired puts a drain right before each scenario that is compared with one.
func paired(list []scenario) (all []scenario) {
	for i, sc := range list {
		if sc.beside && (i == 0 || list[i-1].name != drain.name) {
			all = append(all, drain)
		}
		all = append(all, sc)
	}
	return all
}

// Run measures, each scenario over a fresh database. A scenario that fails is in the
// report and ends nothing else; an error is that nothing could be measured.
func Run(ctx context.Context, o Options) (*Report, error) {
	list, err := chosen(o.Scenarios)
	if err != nil {
		return nil, err
	}
	if o.Beside == "" {
		list = slices.DeleteFunc(slices.Clone(list), func(s scenario) bool { return s.name == river.name })
	}
	list = paired(list)
	if o.Profiles != "" {
		if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
			return nil, err
		}
	}
	if o.Tell == nil {
		o.Tell = func(int, int, string, string) {}
	}
	h, err := openHost(ctx, o.DatabaseURL)
	if err != nil {
		return nil, err
	}
	defer h.close(context.WithoutCancel(ctx))
	r := &Report{Version: o.Version, Quick: o.Quick, Machine: thisMachine(), Began: time.Now().UTC().Truncate(time.Second)}
	if r.Settings, err = h.settings(ctx); err != nil {
		return nil, err
	}
	for i, sc := range list {
		r.Scenarios = append(r.Scenarios, Scenario{Name: sc.name, About: sc.about, Asserts: sc.asserts})
		s := &stage{options: &o, host: h, report: r, out: &r.Scenarios[len(r.Scenarios)-1], tell: func(doing string) { o.Tell(i, len(list), sc.name, doing) }}
		s.perform(ctx, sc)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
	}
	return r, nil
}
