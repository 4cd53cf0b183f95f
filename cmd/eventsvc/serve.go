package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
)

func serveCommand() *cobra.Command {
	return verb("serve", "Serve the API, with relay workers",
		"Serves the API and delivers what is owed. EVENTSVC_RELAY_WORKERS=0 serves the API alone.",
		func(cmd *cobra.Command) error {
			config, err := configured(true)
			if err != nil {
				return err
			}
			p := &app.Process{
				Config: config, Role: app.Role{API: true, Relay: config.RelayWorkers > 0}, Version: currentVersion(), Log: config.Logger(cmd.ErrOrStderr()),
				Ready: func(address string) { fmt.Fprintln(cmd.OutOrStdout(), "ready http://"+address) },
			}
			return p.Run(cmd.Context())
		})
}
