package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
	"github.com/eventsvc/eventsvc/internal/event"
)

func relayCommand() *cobra.Command {
	var workerID string
	var lanes []string
	var once bool
	var limit int
	cmd := verb("relay", "Deliver what is owed, without serving the API",
		"Claims deliveries, attempts them and records what came of it. Any number of relays may run.\n\n"+
			"With --lane it serves the named lanes alone. Without, it serves the lane default: what no named lane takes, and what is left of receivers that are gone.",
		func(cmd *cobra.Command) error {
			config, err := configured(true)
			if err != nil {
				return err
			}
			if config.RelayWorkers == 0 {
				return app.NoWorkers()
			}
			if limit < 0 {
				return usageError{fmt.Sprintf("--limit is %d, and must be a number of deliveries", limit)}
			}
			if cmd.Flags().Changed("limit") && limit == 0 {
				return nil
			}
			served, err := app.ParseLanes(strings.Join(lanes, ","))
			if err != nil {
				return usageError{"--lane: " + err.Error()}
			}
			if len(served) == 0 {
				served = []app.Lane{{Name: event.DefaultLane}}
			}
			p := &app.Process{
				Config: config, Role: app.Role{Relay: true}, Version: currentVersion(), WorkerID: workerID, Log: config.Logger(cmd.ErrOrStderr()),
				Lanes: served, Once: once, Limit: limit,
				Ready: func(string) { fmt.Fprintln(cmd.OutOrStdout(), "ready relay") },
			}
			return p.Run(cmd.Context())
		})
	cmd.Flags().StringVar(&workerID, "worker-id", "", "name of this worker in claims and trails (default host:pid:random); it need not be unique")
	cmd.Flags().StringArrayVar(&lanes, "lane", nil, "serve this lane; NAME=N with at most N attempts in flight; may be given several times")
	cmd.Flags().BoolVar(&once, "once", false, "end when nothing that is due is left, for cron or CI")
	cmd.Flags().IntVar(&limit, "limit", 0, "end after so many deliveries were claimed")
	return cmd
}
