package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

func statusCommand() *cobra.Command {
	var asJSON, exitCode bool
	var maxAge string
	cmd := verb("status", "Show how things stand",
		"What is owed, scheduled, claimed and dead, over all and by receiver and lane, and which relays live.",
		func(cmd *cobra.Command) error {
			age, err := event.ParseDuration(maxAge)
			if err != nil {
				return usageError{"--max-age: " + err.Error()}
			}
			return operating(cmd, func(o *app.Operator) error {
				s, err := o.Ledger.Status(cmd.Context())
				if err != nil {
					return err
				}
				quiet, err := o.Ledger.Quiet(cmd.Context(), o.Keep, 100)
				if err != nil {
					return err
				}
				amiss := whatIsAmiss(&s, time.Duration(age))
				if asJSON {
					err = printStatusJSON(cmd.OutOrStdout(), &s, quiet, amiss)
				} else {
					err = printStatus(cmd.OutOrStdout(), &s, quiet, amiss)
				}
				if err == nil && exitCode && len(amiss) > 0 {
					return amissError{}
				}
				return err
			})
		})
	cmd.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit 1 when something is amiss: dead deliveries, lapsed leases, a lane that nobody serves, or something owed for longer than --max-age")
	cmd.Flags().StringVar(&maxAge, "max-age", "15m", "how long something may be owed before that is amiss")
	return cmd
}

// amissError makes a command exit 1 that has said all there is to say.
type amissError struct{}

func (amissError) Error() string { return "" }

// whatIsAmiss is everything that somebody should look at, one sentence each.
func whatIsAmiss(s *ledger.Status, maxAge time.Duration) []string {
	amiss := []string{}
	if s.Dead > 0 {
		amiss = append(amiss, fmt.Sprintf("%d deliveries are dead", s.Dead))
	}
	if s.Lapsed > 0 {
		amiss = append(amiss, fmt.Sprintf("%d deliveries are held under leases that are over", s.Lapsed))
	}
	if age := time.Duration(s.OldestSeconds * float64(time.Second)); age > maxAge {
		amiss = append(amiss, fmt.Sprintf("the oldest delivery is owed for %s", event.Duration(age.Round(time.Second))))
	}
	for i := range s.Lanes {
		if l := &s.Lanes[i]; l.Unserved() {
			amiss = append(amiss, fmt.Sprintf("no live relay serves lane %s, where %d deliveries wait", l.Lane, l.Owed+l.Scheduled))
		}
	}
	return amiss
}

func printStatus(out io.Writer, s *ledger.Status, quiet []ledger.QuietReceiver, amiss []string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cells ...any) { fmt.Fprintln(w, strings.TrimSuffix(fmt.Sprintln(tabbed(cells)...), "\n")) }
	line("", "owed", "scheduled", "claimed", "dead", "oldest")
	row := func(name string, f *ledger.Figures) {
		line(name, f.Owed, f.Scheduled, f.Claimed, f.Dead, event.Duration(time.Duration(f.OldestSeconds)*time.Second))
	}
	row("all", &s.Figures)
	for i := range s.Lanes {
		l := &s.Lanes[i]
		row("lane "+l.Lane+note(l.Paused, "paused")+note(l.Unserved(), "not served"), &l.Figures)
	}
	for i := range s.Receivers {
		r := &s.Receivers[i]
		row("receiver "+r.Receiver+note(r.Paused, "paused")+note(r.Gone, "gone"), &r.Figures)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "relays: %d\n", len(s.Relays))
	for _, q := range quiet {
		since := "never acknowledged anything"
		if q.LastSuccess != nil {
			since = "last acknowledged something at " + q.LastSuccess.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(out, "quiet: %s %s\n", q.Receiver, since)
	}
	for _, a := range amiss {
		fmt.Fprintln(out, "amiss:", a)
	}
	return nil
}

// tabbed puts a tab between cells.
func tabbed(cells []any) []any {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = fmt.Sprint(c)
	}
	return []any{strings.Join(texts, "\t")}
}

func note(is bool, text string) string {
	if is {
		return " (" + text + ")"
	}
	return ""
}

func printStatusJSON(out io.Writer, s *ledger.Status, quiet []ledger.QuietReceiver, amiss []string) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	names := []string{}
	for _, q := range quiet {
		names = append(names, q.Receiver)
	}
	unserved := []string{}
	for i := range s.Lanes {
		if s.Lanes[i].Unserved() {
			unserved = append(unserved, s.Lanes[i].Lane)
		}
	}
	return e.Encode(map[string]any{
		"owed": s.Owed, "scheduled": s.Scheduled, "claimed": s.Claimed, "dead": s.Dead, "oldest_owed_seconds": s.OldestSeconds,
		"lapsed_leases": s.Lapsed, "relays": len(s.Relays), "unserved_lanes": unserved, "quiet": names, "amiss": amiss,
	})
}
