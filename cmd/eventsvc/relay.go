package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
)

func relayCommand() *cobra.Command {
	var workerID string
	cmd := verb("relay", "Deliver what is owed, without serving the API",
		"Claims deliveries, attempts them and records what came of it. Any number of relays may run.",
		func(cmd *cobra.Command) error {
			config, err := configured(true)
			if err != nil {
				return err
			}
			if config.RelayWorkers == 0 {
				return app.NoWorkers()
			}
			p := &app.Process{
				Config: config, Role: app.Role{Relay: true}, Version: currentVersion(), WorkerID: workerID, Log: config.Logger(cmd.ErrOrStderr()),
				Ready: func(string) { fmt.Fprintln(cmd.OutOrStdout(), "ready relay") },
			}
			return p.Run(cmd.Context())
		})
	cmd.Flags().StringVar(&workerID, "worker-id", "", "name of this worker in claims and trails (default host:pid:random); it need not be unique")
	return cmd
}
