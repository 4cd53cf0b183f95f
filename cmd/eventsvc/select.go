package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/app"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// picking are the flags that say which deliveries or events a verb is for.
type picking struct {
	receiver, target, lane, status, kind, tenant, subject, correlation, of string
	from, to                                                               string
	limit                                                                  int
	dryRun, all                                                            bool
	flags                                                                  *pflag.FlagSet
}

func (p *picking) common(cmd *cobra.Command, what string) {
	p.flags = cmd.Flags()
	p.flags.StringVar(&p.kind, "type", "", "only of events of this type")
	p.flags.StringVar(&p.tenant, "tenant", "", "only of this tenant")
	p.flags.StringVar(&p.from, "from", "", "only of events recorded at or after this RFC 3339 time")
	p.flags.StringVar(&p.to, "to", "", "only of events recorded before this RFC 3339 time")
	p.flags.IntVar(&p.limit, "limit", 0, "at most so many; 0 is none (default all)")
	p.flags.BoolVar(&p.dryRun, "dry-run", false, "count, and change nothing")
	p.flags.BoolVar(&p.all, "all", false, "all "+what)
}

func (p *picking) deliveries(cmd *cobra.Command, what string) {
	p.common(cmd, what)
	p.flags.StringVar(&p.receiver, "receiver", "", "only of this receiver")
	p.flags.StringVar(&p.target, "target", "", "only of this target")
	p.flags.StringVar(&p.lane, "lane", "", "only of this lane")
	p.flags.StringVar(&p.of, "event", "", "only of this event")
	p.flags.StringVar(&p.status, "status", "", "only of this status")
}

// chosen reports whether anything was chosen: a command line that names nothing is
// more likely a slip than a wish for all.
func (p *picking) chosen(args []string) error {
	if len(args) > 0 || p.all {
		return nil
	}
	named := false
	p.flags.Visit(func(f *pflag.Flag) { named = named || f.Name != "dry-run" })
	if !named {
		return usageError{"name ids, or narrow it with a flag such as --receiver or --type, or say --all; see --help"}
	}
	return nil
}

func (p *picking) most() (*int, error) {
	if !p.flags.Changed("limit") {
		return nil, nil
	}
	if p.limit < 0 {
		return nil, usageError{fmt.Sprintf("--limit is %d, and must not be negative", p.limit)}
	}
	return &p.limit, nil
}

func (p *picking) moments() (from, to time.Time, err error) {
	for _, m := range []struct {
		name, text string
		at         *time.Time
	}{{"--from", p.from, &from}, {"--to", p.to, &to}} {
		if m.text == "" {
			continue
		}
		if *m.at, err = time.Parse(time.RFC3339, m.text); err != nil {
			return from, to, usageError{m.name + " must be a time as in RFC 3339, such as 2027-01-31T12:00:00Z"}
		}
	}
	return from, to, nil
}

// selection is what the flags and arguments choose.
func (p *picking) selection(args []string) (s ledger.Selection, err error) {
	if err := p.chosen(args); err != nil {
		return s, err
	}
	s = ledger.Selection{Filter: ledger.Filter{Status: event.Status(p.status), Receiver: p.receiver, Lane: p.lane, Type: p.kind, Tenant: p.tenant}, DryRun: p.dryRun}
	if p.flags.Changed("target") {
		s.Target = &p.target
	}
	if p.of != "" {
		if s.Event, err = event.ParseID(event.EventPrefix, p.of); err != nil {
			return s, usageError{"--event: " + err.Error()}
		}
	}
	if s.From, s.To, err = p.moments(); err != nil {
		return s, err
	}
	if s.Most, err = p.most(); err != nil {
		return s, err
	}
	if len(args) > 0 {
		s.IDs, err = parseIDs(event.DeliveryPrefix, args)
	}
	return s, err
}

func parseIDs(prefix event.Prefix, args []string) ([]event.ID, error) {
	ids := make([]event.ID, len(args))
	for i, text := range args {
		id, err := event.ParseID(prefix, text)
		if err != nil {
			return nil, usageError{fmt.Sprintf("%q is %v", text, err)}
		}
		ids[i] = id
	}
	return ids, nil
}

// operating runs a command with an operator.
func operating(cmd *cobra.Command, do func(*app.Operator) error) error {
	config, err := configured(true)
	if err != nil {
		return err
	}
	o, err := app.NewOperator(cmd.Context(), config, config.Logger(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer o.Close()
	return do(o)
}

// changing is operating for what changes something, which the audit tells of: with what
// was asked for, and what it came to. A dry run is not noted.
func changing(cmd *cobra.Command, args []string, dry bool, object string, do func(*app.Operator) (came any, err error)) error {
	return operating(cmd, func(o *app.Operator) error {
		if dry {
			_, err := do(o)
			return err
		}
		asked := map[string]any{"args": args}
		cmd.Flags().Visit(func(f *pflag.Flag) { asked[f.Name] = f.Value.String() })
		id, err := o.Keys.Begin(cmd.Context(), commandLine(), access.Change{Action: cmd.CommandPath(), Object: object, Before: asked})
		if err != nil {
			return err
		}
		came, err := do(o)
		if err != nil {
			came = map[string]any{"failed": true, "came_to": came}
		}
		late, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 10*time.Second)
		defer cancel()
		return errors.Join(err, o.Keys.End(late, id, came))
	})
}

// tell prints what an operation came to, one fact a line.
func tell(cmd *cobra.Command, done string, n int, skipped map[string]int, dry bool) {
	if dry {
		done = "would be " + done
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %d\n", done, n)
	for _, why := range sortedKeys(skipped) {
		fmt.Fprintf(cmd.OutOrStdout(), "skipped %s %d\n", why, skipped[why])
	}
}
