// Command eventsvc takes events under an idempotency key and delivers each of them,
// signed, to every receiver that wants it. Each verb is a file of this directory, a few
// lines around a function of a room below.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
	"github.com/eventsvc/eventsvc/internal/bench"
)

// version is set when a release is built.
var version = ""

// Exit codes: 0 done, and these.
const (
	exitFailed        = 1
	exitUsage         = 2
	exitConfiguration = 78 // EX_CONFIG of sysexits.h
)

// gcPercent is how much garbage may gather, in percent of what lives, unless GOGC says
// otherwise: what lives in a service is some megabytes, and Go's own 100 would have a tenth of
// a busy processor collect what the next request makes anew.
const gcPercent = 300

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := untilSignal()
	defer stop()
	os.Exit(exitCode(root().ExecuteContext(ctx)))
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "eventsvc",
		Short:         "Events in once, signed webhooks out at least once",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Sprintf("%v; see `%s --help`", err, c.CommandPath())}
	})
	cmd.AddCommand(devCommand(), serveCommand(), relayCommand(), workerCommand(), migrateCommand(),
		requeueCommand(), replayCommand(), cancelCommand(), deliverCommand(), pruneCommand(), statusCommand(), catalogueCommand(), checkCommand(), keysCommand(), secretsCommand(), verifyCommand(), openapiCommand(), benchCommand(), healthcheckCommand(), versionCommand())
	return cmd
}

// usageError is a command line that cannot be understood.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// noArgs refuses arguments where there are none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Sprintf("`%s` takes no argument %q; see `%s --help`", cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}

// exitCode prints an error in one line and says what to exit with.
func exitCode(err error) int {
	var usage usageError
	var config app.ConfigError
	var lane app.UnknownLane
	var scenario bench.UnknownScenario
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return 0
	case errors.Is(err, amissError{}):
		return exitFailed
	case errors.As(err, &config):
		fmt.Fprintln(os.Stderr, "eventsvc: configuration:", err)
		return exitConfiguration
	case errors.As(err, &usage), errors.As(err, &lane), errors.As(err, &scenario):
		fmt.Fprintln(os.Stderr, "eventsvc:", err)
		return exitUsage
	case isUnknownCommand(err):
		fmt.Fprintln(os.Stderr, "eventsvc:", err)
		return exitUsage
	}
	fmt.Fprintln(os.Stderr, "eventsvc:", err)
	return exitFailed
}

// untilSignal is a context that the first SIGTERM or SIGINT ends. The second one ends
// the process on the spot, with 128 and its number.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		cancel()
		second := <-signals
		os.Exit(128 + int(second.(syscall.Signal)))
	}()
	return ctx, cancel
}

// currentVersion is the release, or the revision that was built.
func currentVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "dev-" + s.Value[:12]
		}
	}
	return "dev"
}
