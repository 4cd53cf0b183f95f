package main

import (
	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
)

func devCommand() *cobra.Command {
	var listen, dataDir string
	var nats bool
	cmd := verb("dev", "Run everything on this machine, with nothing to set up",
		"Starts a private PostgreSQL from the binaries on this machine (or downloads one), migrates it, and serves API and relay.\n"+
			"With DATABASE_URL set it uses that database instead. Data is kept in the data directory.",
		func(cmd *cobra.Command) error {
			config, err := configured(false)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("listen") {
				config.Listen = listen
				if err := config.Check(); err != nil {
					return err
				}
			}
			d := &app.Dev{Config: config, DataDir: dataDir, NATS: nats, Version: currentVersion(), Log: config.Logger(cmd.ErrOrStderr()), Out: cmd.OutOrStdout()}
			return d.Run(cmd.Context())
		})
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "address of the API")
	cmd.Flags().StringVar(&dataDir, "data-dir", ".eventsvc", "where everything is kept")
	cmd.Flags().BoolVar(&nats, "nats", false, "run a private NATS server and a worker too, for receivers with site task and a url")
	return cmd
}
