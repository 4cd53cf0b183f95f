package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
)

func catalogueCommand() *cobra.Command {
	var format string
	cmd := verb("catalogue", "Print event types and who listens, with their terms", "",
		func(cmd *cobra.Command) error {
			if format != "json" && format != "markdown" {
				return usageError{fmt.Sprintf("--format is %q, and must be markdown or json", format)}
			}
			return operating(cmd, func(o *app.Operator) error {
				c, err := o.Registry.Catalogue(cmd.Context())
				if err != nil {
					return err
				}
				if format == "markdown" {
					_, err := fmt.Fprint(cmd.OutOrStdout(), c.Markdown())
					return err
				}
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				e.SetEscapeHTML(false)
				return e.Encode(c)
			})
		})
	cmd.Flags().StringVar(&format, "format", "markdown", "markdown or json")
	return cmd
}
