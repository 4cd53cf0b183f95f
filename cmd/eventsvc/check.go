package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
)

func checkCommand() *cobra.Command {
	return verb("check", "Look for what is wrong with the settings, the database and what is declared",
		"Prints one finding a line, each with a stable code: EV-E is an error, EV-W a warning. It exits 1 where there is an error, and 78 where the settings themselves cannot be used.",
		func(cmd *cobra.Command) error {
			config, err := configured(true)
			if err != nil {
				return err
			}
			found, err := app.CheckUp(cmd.Context(), config, config.Logger(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			failed := false
			for _, f := range found {
				fmt.Fprintln(cmd.OutOrStdout(), f.Code, f.Text)
				failed = failed || f.Error()
			}
			if failed {
				return amissError{}
			}
			if len(found) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing is wrong")
			}
			return nil
		})
}
