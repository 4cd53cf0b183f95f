package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
	"github.com/eventsvc/eventsvc/internal/bench"
	"github.com/eventsvc/eventsvc/internal/pg"
)

func benchCommand() *cobra.Command {
	o := bench.Options{Version: currentVersion()}
	var asJSON bool
	cmd := verb("bench", "Measure this program on this machine",
		"Runs `serve` as a process of its own, fires at it and receives from it, and prints what was seen. A scenario whose assertion is false fails the run.\n"+
			"With DATABASE_URL set it makes databases of its own on that server and drops them again; else it starts a private PostgreSQL, as dev does, in a temporary directory.\n"+
			"Scenarios: "+strings.Join(bench.Names(), ", ")+".",
		func(cmd *cobra.Command) (err error) {
			if o.Span < 100*time.Millisecond || o.Span > 10*time.Minute {
				return usageError{fmt.Sprintf("--duration is %s, and must be 100ms to 10m", o.Span)}
			}
			if o.Quick && !cmd.Flags().Changed("duration") {
				o.Span = 500 * time.Millisecond
			}
			if slices.Contains(o.Scenarios, "river") && o.Beside == "" {
				return usageError{"--scenario river needs --beside: the program of bench/river, which `make bench` builds"}
			}
			config, err := configured(false)
			if err != nil {
				return err
			}
			if o.Program, err = os.Executable(); err != nil {
				return err
			}
			url, stop, err := benchDatabase(cmd.Context(), config)
			if err != nil {
				return err
			}
			defer stop()
			bar := newProgress(cmd.ErrOrStderr(), "bench")
			o.DatabaseURL, o.Log, o.Tell = url, cmd.ErrOrStderr(), bar.through
			report, err := bench.Run(cmd.Context(), o)
			bar.end()
			if err != nil {
				return err
			}
			return printBench(cmd.OutOrStdout(), report, asJSON)
		})
	cmd.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	cmd.Flags().StringSliceVar(&o.Scenarios, "scenario", nil, "only these, separated by commas; pending and history with the drain that they are compared with")
	cmd.Flags().DurationVar(&o.Span, "duration", 5*time.Second, "of one measurement")
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "a fiftieth of the rows, and half a second a measurement: whether it all works, not how fast it is")
	cmd.Flags().StringVar(&o.Beside, "beside", "", "the program of bench/river, to measure River on the same server")
	cmd.Flags().StringVar(&o.Profiles, "profiles", "", "a directory for CPU profiles of the service, one a measurement")
	return cmd
}

func printBench(out io.Writer, report *bench.Report, asJSON bool) error {
	write := report.Table
	if asJSON {
		write = report.JSON
	}
	if err := write(out); err != nil {
		return err
	}
	if failed := report.Failed(); len(failed) > 0 {
		return fmt.Errorf("what was asserted is not so in %s", strings.Join(failed, ", "))
	}
	return nil
}

// benchDatabase is the server that the environment names, or a private one.
func benchDatabase(ctx context.Context, config app.Config) (url string, stop func(), err error) {
	if config.DatabaseURL != "" {
		return config.DatabaseURL, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "eventsvc-bench-")
	if err != nil {
		return "", nil, err
	}
	remove := func() { os.RemoveAll(dir) }
	// The server's user may be another than ours.
	if err := os.Chmod(dir, 0o755); err != nil {
		remove()
		return "", nil, err
	}
	server, err := app.StartDatabase(ctx, pg.ServerOptions{Dir: filepath.Join(dir, "postgres"), Log: slog.New(slog.DiscardHandler), Durable: true, DieWithParent: true, Count: true, Settings: benchSettings})
	if err != nil {
		remove()
		return "", nil, err
	}
	return server.URL(), func() { server.Stop(context.WithoutCancel(ctx)); remove() }, nil
}

// benchSettings are what an operator of a busy service would set: the defaults hold less of
// the tables in memory than the smallest machine has, and write every page of them anew each
// few seconds. What is committed is as durable with them.
var benchSettings = []string{"shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=15min"}
