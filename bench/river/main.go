// Command river measures River, a plain job queue over PostgreSQL, on the server of
// DATABASE_URL, as a measure of the machine beside eventsvc bench, which runs it with
// --beside: single inserts, a drain of jobs that each POST 1 KiB to a receiver of this
// process, and both at once. River has no keys, fan-out, signatures or trail. It is a
// module of its own, so that eventsvc does not depend on River.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/eventsvc/eventsvc/internal/bench"
)

const (
	database = "eventsvc_bench_river"
	callers  = 64
	workers  = 256
)

// args are those of a job: 1 KiB to be POSTed.
type args struct {
	Body string `json:"body"`
}

// Kind names the job.
func (args) Kind() string { return "post" }

type worker struct {
	river.WorkerDefaults[args]
	client *http.Client
	url    string
}

// Work makes one request.
func (w *worker) Work(ctx context.Context, job *river.Job[args]) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(job.Args.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Webhook-Id", fmt.Sprint(job.ID))
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func main() {
	span := flag.Duration("duration", 5*time.Second, "of one measurement")
	backlog := flag.Int("backlog", 100_000, "jobs to be drained, at least")
	asJSON := flag.Bool("json", false, "as one JSON object")
	flag.Parse()
	figures, err := measure(context.Background(), *span, *backlog)
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(figures)
		return
	}
	fmt.Printf("single inserts, %d callers   %8.0f inserts/s\ndrain of jobs that POST 1 KiB  %8.0f jobs/s\ninsert and job at once        %8.0f jobs/s\n", callers, figures.Inserts, figures.Drain, figures.Both)
}

// figures are what was seen, a second.
type figures struct {
	Inserts float64 `json:"inserts_per_second"`
	Drain   float64 `json:"drain_jobs_per_second"`
	Both    float64 `json:"insert_and_job_per_second"`
}

// measure makes a database of its own and drops it again.
func measure(ctx context.Context, span time.Duration, backlog int) (f figures, err error) {
	given := os.Getenv("DATABASE_URL")
	if given == "" {
		return f, errors.New("DATABASE_URL is not set; give the URL of a server on which databases may be made, the same as eventsvc bench's")
	}
	admin, err := pgx.Connect(ctx, given)
	if err != nil {
		return f, err
	}
	defer admin.Close(ctx)
	drop := `DROP DATABASE IF EXISTS ` + database + ` WITH (FORCE)`
	for _, sql := range []string{drop, `CREATE DATABASE ` + database + ` TEMPLATE template0`} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			return f, err
		}
	}
	defer func() {
		_, failed := admin.Exec(ctx, drop)
		err = errors.Join(err, failed)
	}()
	config, err := pgxpool.ParseConfig(given)
	if err != nil {
		return f, err
	}
	config.ConnConfig.Database, config.MaxConns = database, 40
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return f, err
	}
	defer pool.Close()
	return measureIn(ctx, pool, span, backlog)
}

func measureIn(ctx context.Context, pool *pgxpool.Pool, span time.Duration, backlog int) (f figures, err error) {
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return f, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return f, err
	}
	url, count, closeIt, err := bench.Receiver()
	if err != nil {
		return f, err
	}
	defer closeIt()
	client, err := newClient(driver, url)
	if err != nil {
		return f, err
	}
	inserted, err := insert(ctx, client, span)
	if err != nil {
		return f, err
	}
	f.Inserts = float64(inserted) / span.Seconds()
	more, err := fill(ctx, client, backlog-inserted)
	if err != nil {
		return f, err
	}
	inserted += more
	if _, err := pool.Exec(ctx, `VACUUM ANALYZE river_job`); err != nil {
		return f, err
	}
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return f, err
	}
	defer client.Stop(ctx)
	if err := completed(ctx, pool, count, inserted); err != nil {
		return f, err
	}
	f.Drain = float64(inserted) / time.Since(began).Seconds()
	began = time.Now()
	both, err := insert(ctx, client, span)
	if err != nil {
		return f, err
	}
	if err := completed(ctx, pool, count, inserted+both); err != nil {
		return f, err
	}
	f.Both = float64(both) / time.Since(began).Seconds()
	return f, nil
}

// newClient works as fast as River can: its own benchmark's settings, and connections to
// the receiver that are kept.
func newClient(driver *riverpgxv5.Driver, url string) (*river.Client[pgx.Tx], error) {
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext, MaxIdleConns: workers, MaxIdleConnsPerHost: workers}
	all := river.NewWorkers()
	river.AddWorker(all, &worker{client: &http.Client{Transport: transport}, url: url})
	return river.NewClient(driver, &river.Config{
		// The client's own cooldown bounds how often an insert notifies, which makes commits wait
		// for each other: it is left as it is.
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers, FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 100 * time.Millisecond}},
		Workers: all, Logger: slog.New(slog.DiscardHandler),
	})
}

var body = strings.Repeat("r", 1<<10)

// insert has callers insert one job after the other for a span.
func insert(ctx context.Context, client *river.Client[pgx.Tx], span time.Duration) (n int, err error) {
	var all sync.WaitGroup
	var done atomic.Int64
	var failure atomic.Pointer[error]
	until := time.Now().Add(span)
	for range callers {
		all.Go(func() {
			for time.Now().Before(until) {
				if _, err := client.Insert(ctx, args{Body: body}, nil); err != nil {
					failure.CompareAndSwap(nil, &err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if failed := failure.Load(); failed != nil {
		err = *failed
	}
	return int(done.Load()), err
}

// fill makes the backlog whole.
func fill(ctx context.Context, client *river.Client[pgx.Tx], n int) (inserted int, err error) {
	const batch = 1000
	for ; inserted < n; inserted += batch {
		jobs := make([]river.InsertManyParams, batch)
		for i := range jobs {
			jobs[i].Args = args{Body: body}
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return inserted, err
		}
	}
	return inserted, nil
}

// completed waits until so many requests have arrived and all jobs are on record as done,
// and holds one against the other. It looks at the table no sooner than it must.
func completed(ctx context.Context, pool *pgxpool.Pool, count func() int, n int) error {
	const look = `SELECT NOT EXISTS (SELECT FROM river_job WHERE state <> 'completed')`
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var all bool
		if count() >= n {
			if err := pool.QueryRow(ctx, look).Scan(&all); err != nil {
				return err
			}
		}
		if all {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d requests have arrived after two minutes", count(), n)
		}
	}
	var done int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM river_job`).Scan(&done); err != nil {
		return err
	}
	if got := count(); got != n || done != n {
		return fmt.Errorf("%d requests arrived and %d jobs are done, and %d were inserted", got, done, n)
	}
	return nil
}
