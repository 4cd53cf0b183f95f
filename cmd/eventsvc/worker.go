package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
	"github.com/eventsvc/eventsvc/internal/event"
)

func workerCommand() *cobra.Command {
	var workerID string
	var lanes []string
	cmd := verb("worker", "Deliver what relays hand over",
		"Makes the attempts of receivers with site task and a url: relays hand their claims over NATS JetStream (EVENTSVC_NATS_URL), and each is taken in the database before it is run. Any number of workers may run.\n\n"+
			"With --lane it serves the named lanes, without it the lane default.",
		func(cmd *cobra.Command) error {
			config, err := configured(true)
			if err != nil {
				return err
			}
			switch {
			case config.NATSURL == "":
				return app.NoTasks()
			case config.RelayWorkers == 0:
				return app.NoWorkers()
			}
			served, err := app.ParseLanes(strings.Join(lanes, ","))
			if err != nil {
				return usageError{"--lane: " + err.Error()}
			}
			for _, l := range served {
				if l.Workers > 0 {
					return usageError{fmt.Sprintf("--lane: %s=%d bounds a lane, which only relays do; a worker has EVENTSVC_RELAY_WORKERS for all it serves", l.Name, l.Workers)}
				}
			}
			if len(served) == 0 {
				served = []app.Lane{{Name: event.DefaultLane}}
			}
			p := &app.Process{
				Config: config, Role: app.Role{Worker: true}, Version: currentVersion(), WorkerID: workerID, Log: config.Logger(cmd.ErrOrStderr()), Lanes: served,
				Ready: func(string) { fmt.Fprintln(cmd.OutOrStdout(), "ready worker") },
			}
			return p.Run(cmd.Context())
		})
	cmd.Flags().StringVar(&workerID, "worker-id", "", "name of this worker in claims and trails (default host:pid:random); it need not be unique")
	cmd.Flags().StringArrayVar(&lanes, "lane", nil, "serve this lane; may be given several times")
	return cmd
}
