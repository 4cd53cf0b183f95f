package main

import (
	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/api"
)

func openapiCommand() *cobra.Command {
	return verb("openapi", "Print the API's specification (openapi.yaml)", "", func(cmd *cobra.Command) error {
		spec, err := api.Spec()
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(spec)
		return err
	})
}
