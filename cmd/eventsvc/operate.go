package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

func requeueCommand() *cobra.Command {
	var p picking
	cmd := &cobra.Command{
		Use: "requeue [delivery...]", Short: "Owe dead deliveries again",
		Long: "Each has its whole budget again and keeps its webhook-id. Orphaned ones are meant where ids or --status orphaned say so, once their receiver is declared again.",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.selection(args)
			if err != nil {
				return err
			}
			return changing(cmd, args, s.DryRun, "deliveries", func(o *app.Operator) (any, error) {
				bar := newProgress(cmd.ErrOrStderr(), "requeued")
				s.Progress = bar.tell
				t, woken, err := o.Ledger.Requeue(cmd.Context(), s)
				bar.end()
				if len(woken) > 0 {
					o.Wake(cmd.Context())
				}
				tell(cmd, "requeued", t.Done, t.Skipped, s.DryRun)
				return t, err
			})
		},
	}
	p.deliveries(cmd, "dead deliveries")
	return cmd
}

func cancelCommand() *cobra.Command {
	var p picking
	cmd := &cobra.Command{
		Use: "cancel [delivery...]", Short: "Withdraw deliveries that are pending or failed",
		Long: "What a worker holds is left to its attempt, and counted.",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.selection(args)
			if err != nil {
				return err
			}
			return changing(cmd, args, s.DryRun, "deliveries", func(o *app.Operator) (any, error) {
				bar := newProgress(cmd.ErrOrStderr(), "cancelled")
				s.Progress = bar.tell
				t, err := o.Ledger.Cancel(cmd.Context(), s)
				bar.end()
				tell(cmd, "cancelled", t.Done, t.Skipped, s.DryRun)
				return t, err
			})
		},
	}
	p.deliveries(cmd, "that is owed and not held")
	return cmd
}

func replayCommand() *cobra.Command {
	var p picking
	var receivers, targets []string
	cmd := &cobra.Command{
		Use: "replay [event...]", Short: "Owe events again",
		Long: "What has ended is reopened: after a success under a new webhook-id. Who wants such events now and has no delivery gets one.",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := replayOf(&p, args, receivers, targets)
			if err != nil {
				return err
			}
			return changing(cmd, args, a.DryRun, "events", func(o *app.Operator) (any, error) {
				bar := newProgress(cmd.ErrOrStderr(), "replayed")
				a.Progress = bar.tell
				r, err := o.Desk.ReplayAll(cmd.Context(), a)
				bar.end()
				if r.Reopened+r.Added > 0 && !a.DryRun {
					o.Wake(cmd.Context())
				}
				skipped := map[string]int{}
				for status, n := range r.Skipped {
					skipped[string(status)] = n
				}
				if r.NotFound > 0 {
					skipped[ledger.SkippedNotFound] = r.NotFound
				}
				tell(cmd, "reopened", r.Reopened, nil, a.DryRun)
				tell(cmd, "added", r.Added, skipped, a.DryRun)
				return r, err
			})
		},
	}
	p.common(cmd, "events")
	cmd.Flags().StringVar(&p.subject, "subject", "", "only of this subject")
	cmd.Flags().StringVar(&p.correlation, "correlation-id", "", "only of this chain")
	cmd.Flags().StringArrayVar(&receivers, "receiver", nil, "only to this receiver; may be given several times")
	cmd.Flags().StringArrayVar(&targets, "target", nil, "only to this target; may be given several times")
	return cmd
}

func replayOf(p *picking, args, receivers, targets []string) (a fire.ReplayAll, err error) {
	if err := p.chosen(args); err != nil {
		return a, err
	}
	a = fire.ReplayAll{
		Filter: fire.Filter{Type: p.kind, Tenant: p.tenant, Subject: p.subject, CorrelationID: p.correlation},
		To:     fire.To{Receivers: receivers, Targets: targets}, DryRun: p.dryRun,
	}
	if a.From, a.Filter.To, err = p.moments(); err != nil {
		return a, err
	}
	if a.Most, err = p.most(); err != nil {
		return a, err
	}
	if len(args) > 0 {
		a.IDs, err = parseIDs(event.EventPrefix, args)
	}
	return a, err
}

func pruneCommand() *cobra.Command {
	var olderThan string
	var limit int
	var dryRun bool
	cmd := verb("prune", "Delete events past their retention",
		"Events whose time is over and for which nothing is owed, with their deliveries and attempts. A running service does so by itself every EVENTSVC_PRUNE_EVERY.",
		func(cmd *cobra.Command) error {
			keep, err := event.ParseDuration(cmp.Or(olderThan, "0s"))
			if err != nil {
				return usageError{"--older-than: " + err.Error()}
			}
			if limit < 0 {
				return usageError{fmt.Sprintf("--limit is %d, and must not be negative", limit)}
			}
			return changing(cmd, nil, dryRun, "events", func(o *app.Operator) (any, error) {
				p := o.Prune
				p.DryRun = dryRun
				if olderThan != "" {
					p.Keep = time.Duration(keep)
				}
				if cmd.Flags().Changed("limit") {
					p.Most = &limit
				}
				bar := newProgress(cmd.ErrOrStderr(), "pruned")
				p.Progress = bar.tell
				done, err := o.Desk.Prune(cmd.Context(), p)
				bar.end()
				tell(cmd, "pruned", done.Events, nil, dryRun)
				return done, err
			})
		})
	cmd.Flags().StringVar(&olderThan, "older-than", "", "instead of EVENTSVC_RETENTION, such as 30d; windows of event types are kept")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many events; 0 is none (default all)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count, and delete nothing")
	return cmd
}

func deliverCommand() *cobra.Command {
	return &cobra.Command{
		Use: "deliver delivery", Short: "Try one delivery now, in this process",
		Long: "Whatever it waits for. It exits 1 unless the receiver took it.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{"name one delivery, such as dlv_01jxkg2c8zf3v9e4m6r7t8w9yb"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(event.DeliveryPrefix, args)
			if err != nil {
				return err
			}
			config, err := configured(true)
			if err != nil {
				return err
			}
			log := config.Logger(cmd.ErrOrStderr())
			p := &app.Process{Config: config, Version: currentVersion(), Log: log}
			return changing(cmd, args, false, "deliveries/"+args[0], func(o *app.Operator) (any, error) {
				if _, err := app.Deliver(cmd.Context(), p, ids[0]); err != nil {
					return nil, err
				}
				d, err := o.Ledger.Find(cmd.Context(), ids[0])
				if err != nil {
					return nil, err
				}
				fmt.Fprintln(cmd.OutOrStdout(), d.Status)
				if d.Status != event.Succeeded {
					return d.Status, fmt.Errorf("the delivery is %s: %s", d.Status, lastOf(&d))
				}
				return d.Status, nil
			})
		},
	}
}

func lastOf(d *ledger.Delivery) string {
	if d.Last == nil {
		return "no attempt was made"
	}
	return d.Last.Error
}

func sortedKeys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
