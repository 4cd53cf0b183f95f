package main

import (
	"encoding/json"
	"fmt"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/app"
	"github.com/eventsvc/eventsvc/internal/event"
)

func keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys", Short: "Make, list and revoke API keys", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError{"say create, list or revoke; see `eventsvc keys --help`"}
		},
	}
	cmd.AddCommand(createKeyCommand(), listKeysCommand(), revokeKeyCommand())
	return cmd
}

func createKeyCommand() *cobra.Command {
	var d access.Draft
	var scopes []string
	var expires string
	cmd := verb("create", "Make an API key and print it, this once", "",
		func(cmd *cobra.Command) error {
			for _, s := range scopes {
				d.Scopes = append(d.Scopes, access.Scope(s))
			}
			if expires != "" {
				at, err := time.Parse(time.RFC3339, expires)
				if err != nil {
					return usageError{"--expires-at must be a time as in RFC 3339, such as 2027-01-31T12:00:00Z"}
				}
				d.ExpiresAt = at
			}
			for _, f := range d.Check(time.Now()) {
				return usageError{flagOf(f.Pointer) + " " + f.Message}
			}
			return operating(cmd, func(o *app.Operator) error {
				k, opens, err := o.Keys.Issue(cmd.Context(), commandLine(), d)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), k.ID.Text(event.KeyPrefix), "is the key's id; the key is shown now and never again:")
				fmt.Fprintln(cmd.OutOrStdout(), opens)
				return nil
			})
		})
	cmd.Flags().StringVar(&d.Name, "name", "", "what it is for")
	cmd.Flags().StringVar(&d.Owner, "owner", "", "whose it is; keys of one owner and tenant share idempotency keys (default the name)")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "events:write, read, receivers:write, deliveries:write or admin; may be given several times")
	cmd.Flags().StringVar(&d.Tenant, "tenant", "", "bind it to this tenant")
	cmd.Flags().StringVar(&expires, "expires-at", "", "when it ends, as in RFC 3339 (default never)")
	cmd.Flags().IntVar(&d.Rate.PerSecond, "rate", 0, "calls a second, in each process (default unbounded)")
	cmd.Flags().IntVar(&d.Rate.Burst, "burst", 0, "calls at once (default as many as a second's)")
	return cmd
}

// flagOf is the flag that a draft's member comes from.
func flagOf(pointer string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	switch {
	case pointer == "/rate/burst":
		return "--burst"
	case name == "scopes":
		return "--scope"
	}
	return "--" + strings.ReplaceAll(name, "_", "-")
}

func listKeysCommand() *cobra.Command {
	var format string
	cmd := verb("list", "List API keys, newest first", "", func(cmd *cobra.Command) error {
		if format != "text" && format != "json" {
			return usageError{fmt.Sprintf("--format is %q, and must be text or json", format)}
		}
		return operating(cmd, func(o *app.Operator) error {
			lines := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for below := (event.ID{}); ; {
				page, err := o.Keys.List(cmd.Context(), below, 500)
				if err != nil {
					return err
				}
				if len(page) == 0 {
					return lines.Flush()
				}
				for i := range page {
					if err := printKey(lines, &page[i], format); err != nil {
						return err
					}
				}
				below = page[len(page)-1].ID
			}
		})
	})
	cmd.Flags().StringVar(&format, "format", "text", "text, or json: one object a line")
	return cmd
}

func printKey(w *tabwriter.Writer, k *access.Key, format string) error {
	state := "live"
	switch {
	case k.RevokedAt != nil:
		state = "revoked"
	case k.ExpiresAt != nil && k.ExpiresAt.Before(time.Now()):
		state = "expired"
	}
	id := k.ID.Text(event.KeyPrefix)
	if format == "json" {
		return json.NewEncoder(w).Encode(map[string]any{
			"id": id, "name": k.Name, "owner": k.Owner, "prefix": k.Prefix, "scopes": k.Scopes, "tenant": k.Tenant, "state": state,
			"created_at": k.CreatedAt, "expires_at": k.ExpiresAt, "revoked_at": k.RevokedAt, "last_used_at": k.LastUsedAt,
		})
	}
	scopes := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		scopes[i] = string(s)
	}
	_, err := fmt.Fprintf(w, "%s\t%s…\t%s\t%s\t%s\t%s\n", id, k.Prefix, state, strings.Join(scopes, ","), k.Tenant, k.Name)
	return err
}

func revokeKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke key...", Short: "Revoke API keys, in every process at once",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{"name one key or more, such as key_01jxkg2c8zf3v9e4m6r7t8w9yc; `eventsvc keys list` has them"}
			}
			ids, err := parseIDs(event.KeyPrefix, args)
			if err != nil {
				return err
			}
			return operating(cmd, func(o *app.Operator) error {
				for i, id := range ids {
					if _, err := o.Keys.Revoke(cmd.Context(), commandLine(), id); err != nil {
						return fmt.Errorf("%s: %w", args[i], err)
					}
				}
				return nil
			})
		},
	}
}

// commandLine is who works on the database itself, as the audit names them.
func commandLine() access.Caller {
	name := "command line"
	if u, err := user.Current(); err == nil {
		name += ", " + u.Username
	}
	return access.Operator(name)
}
