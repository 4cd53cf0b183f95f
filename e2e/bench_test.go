package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// benched is what of a report of bench --json is looked at here.
type benched struct {
	Machine   struct{ CPUs int }
	Settings  []struct{ Name, Value string }
	Scenarios []struct {
		Name, Asserts, Failure string
		Figures                []struct {
			Name, Unit string
			Value      float64
		}
	}
}

func TestBenchMeasuresInDatabasesOfItsOwnAndLeavesNone(t *testing.T) {
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	cmd := exec.Command(binary, "bench", "--quick", "--json", "--scenario", "bulk,latency,pending")
	cmd.Env = append(bare(), "DATABASE_URL="+url)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var report benched
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if report.Machine.CPUs < 1 || len(report.Settings) < 5 || report.Settings[1].Name != "fsync" {
		t.Errorf("what it was measured on is missing: %s", out)
	}
	figures := map[string]float64{}
	for _, s := range report.Scenarios {
		if s.Failure != "" || s.Asserts == "" {
			t.Errorf("%s: asserted %q, failed: %q", s.Name, s.Asserts, s.Failure)
		}
		for _, f := range s.Figures {
			figures[s.Name+": "+f.Name] = f.Value
		}
	}
	for _, name := range []string{"bulk: bulk", "drain: drain", "drain: commits per delivery", "drain: WAL per delivery", "latency: 100/s, p50", "latency: 500/s, p99", "latency: unbounded, 64 callers, POST to webhook", "pending: drain, beside that over an empty database"} {
		if figures[name] <= 0 {
			t.Errorf("%s is %v, and all figures are %v", name, figures[name], figures)
		}
	}
	var left, events int
	if err := db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_database WHERE datname LIKE 'eventsvc\_bench\_%'), (SELECT count(*) FROM eventsvc.events)`).Scan(&left, &events); err != nil {
		t.Fatal(err)
	}
	if left != 0 || events != 0 {
		t.Errorf("it left %d databases, and %d events in the one it was given", left, events)
	}
}

// A program that loses what it was given must not be praised for its speed.
func TestBenchFailsWhereItsAssertionIsFalse(t *testing.T) {
	url := pgtest.URL(t)
	cmd := exec.Command(binary, "bench", "--quick", "--json", "--scenario", "fires", "--duration", "200ms")
	cmd.Env = append(bare(), "DATABASE_URL="+url)
	eaten := make(chan error, 1)
	go func() { eaten <- eatOwed(t.Context(), url) }()
	out, err := cmd.Output()
	if err := <-eaten; err != nil {
		t.Fatal(err)
	}
	var report benched
	if json.Unmarshal(out, &report) != nil || len(report.Scenarios) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(report.Scenarios[0].Failure, "were due") {
		t.Errorf("exit code %d, failure %q", cmd.ProcessState.ExitCode(), report.Scenarios[0].Failure)
	}
}

// eatOwed takes one delivery out of the database in which fires are measured.
func eatOwed(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	db, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	for ; config.Database == "" || !strings.HasSuffix(config.Database, "_fires"); time.Sleep(time.Millisecond) {
		err := db.QueryRow(ctx, `SELECT coalesce(max(datname), '') FROM pg_database WHERE datname LIKE 'eventsvc\_bench\_%\_fires'`).Scan(&config.Database)
		if err != nil {
			return err
		}
	}
	measured, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer measured.Close(ctx)
	for {
		done, err := measured.Exec(ctx, `DELETE FROM eventsvc.owed WHERE id = (SELECT id FROM eventsvc.owed LIMIT 1)`)
		if err != nil || done.RowsAffected() == 1 {
			return err
		}
	}
}

// What measures River is a program of its own: its figures are held beside those of the run,
// and a program that fails is a scenario that has.
func TestBenchMeasuresWhatItIsToBeHeldBeside(t *testing.T) {
	url := pgtest.URL(t)
	for name, c := range map[string]struct {
		script, failure string
		beside          float64
	}{
		"a measure":  {`[ -n "$DATABASE_URL" ] && [ "$1 $2" = "--json --duration" ] && echo '{"inserts_per_second":0.5,"drain_jobs_per_second":1,"insert_and_job_per_second":1}'`, "", 2},
		"no figures": {`echo none`, "answers no figures", 0},
		"a failure":  {`echo "it is not well" >&2; exit 3`, "it is not well", 0},
	} {
		program := filepath.Join(t.TempDir(), "beside")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary, "bench", "--quick", "--json", "--scenario", "fires,river", "--duration", "100ms", "--beside", program)
		cmd.Env = append(bare(), "DATABASE_URL="+url)
		out, _ := cmd.Output()
		var report benched
		if json.Unmarshal(out, &report) != nil || len(report.Scenarios) != 2 {
			t.Fatalf("%s: %s", name, out)
		}
		fires, river := report.Scenarios[0], report.Scenarios[1]
		if !strings.Contains(river.Failure, c.failure) || (c.failure == "") != (river.Failure == "") || (cmd.ProcessState.ExitCode() == 1) != (c.failure != "") {
			t.Errorf("%s: exit code %d, failure %q", name, cmd.ProcessState.ExitCode(), river.Failure)
		}
		var rate, ratio float64
		for _, f := range fires.Figures {
			if f.Name == "64 callers, 1 KiB" {
				rate = f.Value
			}
		}
		for _, f := range river.Figures {
			if f.Name == "fires (64 callers, 1 KiB) beside that" {
				ratio = f.Value
			}
		}
		if ratio != c.beside*rate {
			t.Errorf("%s: %v beside %v", name, ratio, rate)
		}
	}
}

func TestBenchRefusesWhatItCannotMeasure(t *testing.T) {
	for _, args := range [][]string{{"--scenario", "fire"}, {"--duration", "1ms"}, {"fires"}, {"--scenario", "river"}} {
		cmd := exec.Command(binary, append([]string{"bench"}, args...)...)
		cmd.Env = append(bare(), "DATABASE_URL="+pgtest.URL(t))
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%v: exit code %d: %s", args, cmd.ProcessState.ExitCode(), out)
		}
	}
}
