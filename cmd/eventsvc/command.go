package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
)

// configured reads the environment for a command that needs a database.
func configured(needsDatabase bool) (app.Config, error) {
	config, err := app.ReadConfig(os.Environ())
	if err != nil {
		return config, err
	}
	if needsDatabase && config.DatabaseURL == "" {
		return config, app.NoDatabase()
	}
	return config, nil
}

// isUnknownCommand reports whether cobra did not know a verb.
func isUnknownCommand(err error) bool { return strings.HasPrefix(err.Error(), "unknown command") }

// verb is a command without arguments.
func verb(use, short, long string, run func(cmd *cobra.Command) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd) },
	}
}
