package main

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func healthcheckCommand() *cobra.Command {
	return verb("healthcheck", "Ask the service on this machine whether it is ready",
		"Exits 0 if the process at EVENTSVC_OPS_LISTEN, or at EVENTSVC_LISTEN where that is not set, is ready. For container images, which have no curl.",
		func(cmd *cobra.Command) error {
			config, err := configured(false)
			if err != nil {
				return err
			}
			host, port, err := net.SplitHostPort(cmp.Or(config.OpsListen, config.Listen))
			if err != nil {
				return err
			}
			if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
				host = "127.0.0.1"
			}
			client := &http.Client{Timeout: 3 * time.Second}
			resp, err := client.Get("http://" + net.JoinHostPort(host, port) + "/readyz")
			if err != nil {
				return fmt.Errorf("the service does not answer: %w", err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("the service is not ready: /readyz answered %s", resp.Status)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ready")
			return nil
		})
}
