package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/eventsvc/eventsvc/internal/app"
	"github.com/eventsvc/eventsvc/internal/pg"
)

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the database's schema up to date, or look at it", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var steps int
	down := migration("down", "Take the last migration back, and what it holds with it", func(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
		return pg.MigrateDown(ctx, pool, steps, log)
	})
	down.Flags().IntVar(&steps, "steps", 1, "how many migrations to take back")
	cmd.AddCommand(
		migration("up", "Apply every migration that is pending", pg.MigrateUp),
		down,
		migration("repair", "Clear the mark of a migration that failed", pg.MigrateRepair),
		migration("status", "Show where the schema stands", func(context.Context, *pgxpool.Pool, *slog.Logger) error { return nil }),
	)
	return cmd
}

// migration is a verb that does something to the schema and then shows where it
// stands.
func migration(use, short string, do func(context.Context, *pgxpool.Pool, *slog.Logger) error) *cobra.Command {
	return verb(use, short, "", func(cmd *cobra.Command) error {
		config, err := configured(true)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), app.MigratePatience)
		defer cancel()
		pool, err := app.OpenReady(ctx, config)
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := do(ctx, pool, config.Logger(cmd.ErrOrStderr())); err != nil {
			return err
		}
		status, err := pg.Status(ctx, pool)
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "version %d of %d\n", status.Version, status.Latest)
		for _, name := range status.Pending {
			fmt.Fprintln(out, "pending", name)
		}
		if status.Dirty || status.Version > status.Latest {
			fmt.Fprintln(out, status.Advice())
		}
		return nil
	})
}
