package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return verb("version", "Print the version", "", func(cmd *cobra.Command) error {
		fmt.Fprintf(cmd.OutOrStdout(), "eventsvc %s %s %s/%s\n", currentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	})
}
