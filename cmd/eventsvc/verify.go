package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/webhook"
)

func verifyCommand() *cobra.Command {
	var secrets []string
	var id, stamp, signature, at string
	cmd := verb("verify", "Verify the signature of a webhook",
		"Reads the body from standard input, as it came, byte for byte. It exits 1 and says which part fails: a header that is missing, the time, or the signature.",
		func(cmd *cobra.Command) error {
			var keys []*event.Signer
			for _, text := range secrets {
				key, err := event.ParseSecret(text)
				if err != nil {
					return usageError{"--secret " + err.Error()}
				}
				keys = append(keys, key.Signer())
			}
			if len(keys) == 0 {
				return usageError{"give the signing secret with --secret whsec_..."}
			}
			now := time.Now()
			if at != "" {
				var err error
				if now, err = time.Parse(time.RFC3339, at); err != nil {
					return usageError{"--at must be a time as in RFC 3339, such as 2027-01-31T12:00:00Z"}
				}
			}
			body, err := io.ReadAll(cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("read the body: %w", err)
			}
			h := http.Header{}
			h.Set("Webhook-Id", id)
			h.Set("Webhook-Timestamp", stamp)
			h.Set("Webhook-Signature", signature)
			if err := webhook.Verify(h, body, now, keys...); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the signature is good")
			return nil
		})
	cmd.Flags().StringArrayVar(&secrets, "secret", nil, "a signing secret: whsec_ and base64; may be given several times")
	cmd.Flags().StringVar(&id, "id", "", "the header webhook-id")
	cmd.Flags().StringVar(&stamp, "timestamp", "", "the header webhook-timestamp")
	cmd.Flags().StringVar(&signature, "signature", "", "the header webhook-signature")
	cmd.Flags().StringVar(&at, "at", "", "the time to judge by, in RFC 3339 (default now)")
	return cmd
}
