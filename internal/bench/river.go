package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

var river = scenario{
	name: "river", bound: 10 * time.Minute, alone: true,
	about:   "River, a plain job queue, on the same server: single inserts, a drain of jobs that each POST 1 KiB, and both at once",
	asserts: "each job that was inserted is completed, and made one request",
	run:     measureRiver,
}

// besides is what the program of bench/river answers with --json.
type besides struct {
	Inserts float64 `json:"inserts_per_second"`
	Drain   float64 `json:"drain_jobs_per_second"`
	Both    float64 `json:"insert_and_job_per_second"`
}

// measureRiver runs the program that measures River, with the server and the spans that all
// else is measured with. It is a program of its own: River is no part of this one.
func measureRiver(ctx context.Context, s *stage) error {
	said := &tail{}
	cmd := exec.CommandContext(ctx, s.options.Beside, "--json", "--duration", s.options.Span.String(), "--backlog", fmt.Sprint(s.many(100_000)))
	cmd.Env, cmd.Stderr = append(bare(os.Environ()), "DATABASE_URL="+s.host.given), said
	dieWithParent(cmd)
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", s.options.Beside, err, said)
	}
	var seen besides
	if err := json.Unmarshal(out, &seen); err != nil {
		return fmt.Errorf("%s answers no figures: %w", s.options.Beside, err)
	}
	if seen.Inserts <= 0 || seen.Drain <= 0 || seen.Both <= 0 {
		return errors.New("it answers figures that are none: " + string(out))
	}
	for _, f := range []struct {
		name, unit, scenario, figure string
		value                        float64
	}{
		{"single inserts, 64 callers", "inserts/s", "fires", "64 callers, 1 KiB", seen.Inserts},
		{"drain of jobs", "jobs/s", "drain", drained, seen.Drain},
		{"insert and job at once, 64 callers", "jobs/s", "latency", "unbounded, 64 callers, POST to webhook", seen.Both},
	} {
		s.figure(f.name, f.value, f.unit)
		if ours := s.report.find(f.scenario, f.figure); ours > 0 {
			s.figure(f.scenario+" ("+f.figure+") beside that", ours/f.value, "x")
		}
	}
	return nil
}
