package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
)

func secretsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "secrets", Short: "Look after stored signing secrets", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(verb("reseal", "Seal every stored secret with the newest key",
		"With EVENTSVC_SECRET_KEY=new,old it seals anew what the old key sealed, or what is stored unsealed; then the old key can be taken away. It changes nothing where a secret cannot be opened.",
		func(cmd *cobra.Command) error {
			return changing(cmd, nil, false, "secrets", func(o *app.Operator) (any, error) {
				n, err := o.Reseal(cmd.Context())
				if err != nil {
					return nil, err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "resealed %d\n", n)
				return map[string]int{"resealed": n}, nil
			})
		}))
	return cmd
}
