package bench

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// stage is what a scenario plays on: a fresh database, and the service over it.
type stage struct {
	options  *Options
	host     *host
	report   *Report
	out      *Scenario
	tell     func(doing string)
	database string
	db       *pgxpool.Pool
	service  *service
	sinks    []*sink
	loads    int
	profiles int
	// profileErr is why a profile could not be taken.
	profileErr error
}

// perform plays a scenario from the empty database to its removal.
func (s *stage) perform(ctx context.Context, sc scenario) {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, sc.bound, fmt.Errorf("it took longer than %s", sc.bound))
	defer cancel()
	s.tell("starting")
	var err error
	if !sc.alone {
		err = s.open(ctx)
	}
	if err == nil {
		err = sc.run(ctx, s)
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	err = cmp.Or(err, s.profileErr)
	s.remembered()
	s.out.Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
	if err != nil {
		s.out.Failure = err.Error()
		if s.service != nil && s.options.Log != nil {
			fmt.Fprintf(s.options.Log, "%s failed; the service's last words:\n%s\n", sc.name, s.service.log)
		}
	}
	if err := s.close(context.WithoutCancel(ctx)); err != nil && s.out.Failure == "" {
		s.out.Failure = err.Error()
	}
}

func (s *stage) open(ctx context.Context) (err error) {
	s.database = s.host.template + "_" + s.out.Name
	if err := s.host.create(ctx, s.database, s.host.template); err != nil {
		return err
	}
	if s.db, err = pg.Open(ctx, s.host.url(s.database), pg.PoolOptions{Name: "bench", MaxConns: 6}); err != nil {
		return err
	}
	return s.start(ctx)
}

func (s *stage) start(ctx context.Context) (err error) {
	s.service, err = startService(ctx, s.options.Program, s.host.url(s.database))
	return err
}

func (s *stage) close(ctx context.Context) error {
	if s.service != nil {
		s.service.stop()
	}
	for _, k := range s.sinks {
		k.close()
	}
	if s.db != nil {
		s.db.Close()
	}
	if s.database == "" {
		return nil
	}
	return s.host.drop(ctx, s.database)
}

// remembered notes what the service has had resident, where it is there still.
func (s *stage) remembered() {
	if s.service == nil {
		return
	}
	if bytes, ok := peakMemory(s.service.pid()); ok {
		s.figure("memory of the service at its peak", bytes/(1<<20), "MiB")
	}
}

func (s *stage) figure(name string, value float64, unit string) {
	s.out.Figures = append(s.out.Figures, Figure{name, value, unit})
}

// many is a number of rows, less where it is to be quick.
func (s *stage) many(n int) int {
	if s.options.Quick {
		return n / quickShare
	}
	return n
}

// secret signs everything that the service sends to a sink.
var secret = event.Secret(strings.Repeat("bench", 6))

var secretText = "whsec_" + base64.StdEncoding.EncodeToString(secret)

// receiver declares one with a sink of its own. terms are further terms, after a comma, or "".
func (s *stage) receiver(ctx context.Context, key, kind, terms string, set func(*sink)) (*sink, error) {
	k, err := s.sink(set)
	if err != nil {
		return nil, err
	}
	return k, s.declare(ctx, key, kind, `"url":"`+k.url+`"`+terms)
}

// sink opens one, which is closed with the stage.
func (s *stage) sink(set func(*sink)) (*sink, error) {
	k, err := openSink(secret.Signer(), set)
	if err == nil {
		s.sinks = append(s.sinks, k)
	}
	return k, err
}

func (s *stage) declare(ctx context.Context, key, kind, terms string) error {
	return s.service.call(ctx, "PUT", "/v1/receivers/"+key, `{"events":["`+kind+`"],"secret":"`+secretText+`",`+terms+`}`)
}

func (s *stage) pause(ctx context.Context, key string) error {
	return s.service.call(ctx, "POST", "/v1/receivers/"+key+"/pause", "")
}

func (s *stage) resume(ctx context.Context, key string) error {
	return s.service.call(ctx, "POST", "/v1/receivers/"+key+"/resume", "")
}

var (
	//go:embed sql/seed.sql
	sqlSeed string
	//go:embed sql/finish.sql
	sqlFinish string
	//go:embed sql/counts.sql
	sqlCounts string
)

// seedRows is how many rows one statement writes.
const seedRows = 50_000

// owe writes a backlog of a receiver, as if it had been fired a minute ago.
func (s *stage) owe(ctx context.Context, key, kind, data string, n int) error {
	return s.write(ctx, sqlSeed, "owed to "+key, n, key, kind, data)
}

// finishedOver is the time over which what has finished is spread evenly (finish.sql).
const finishedOver = 6 * 24 * time.Hour

// finish writes deliveries of a receiver that have succeeded in the last days.
func (s *stage) finish(ctx context.Context, key, kind string, n int) error {
	return s.write(ctx, sqlFinish, "finished", n, key, kind, `{"n":1}`)
}

func (s *stage) write(ctx context.Context, sql, doing string, n int, key, kind, data string) error {
	for from := 0; from < n; from += seedRows {
		s.tell(fmt.Sprintf("writing %s of %s rows %s", thousands(fmt.Sprint(from)), thousands(fmt.Sprint(n)), doing))
		if _, err := s.db.Exec(ctx, sql, key, kind, []byte(data), from+1, min(from+seedRows, n), n); err != nil {
			return fmt.Errorf("write what is %s: %w", doing, err)
		}
	}
	return s.settle(ctx)
}

// settle leaves the tables as autovacuum would have in time, waits for what autovacuum has
// begun by itself, and leaves nothing to be written out that was not part of what is measured.
func (s *stage) settle(ctx context.Context) error {
	if _, err := s.db.Exec(ctx, `VACUUM (ANALYZE) eventsvc.owed, eventsvc.events, eventsvc.settled, eventsvc.attempts, eventsvc.fire_keys`); err != nil {
		return err
	}
	s.tell("waiting for autovacuum")
	err := s.await(ctx, "autovacuum to end", func() (none bool, err error) {
		err = s.db.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND datname = current_database())`).Scan(&none)
		return none, err
	})
	if err != nil {
		return err
	}
	// Whoever may not do that measures with it.
	s.db.Exec(ctx, `CHECKPOINT`)
	return nil
}

// counts are how many rows there are.
type counts struct{ events, owed, settled, succeeded, attempts int }

func (s *stage) counts(ctx context.Context) (c counts, err error) {
	err = s.db.QueryRow(ctx, sqlCounts).Scan(&c.events, &c.owed, &c.settled, &c.succeeded, &c.attempts)
	return c, err
}

// lookEvery is how often it is looked whether something has come about.
const lookEvery = 10 * time.Millisecond

// await waits until something has come about.
func (s *stage) await(ctx context.Context, what string, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-s.service.done:
			return errors.New("the service has ended, waiting for " + what)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(lookEvery):
		}
	}
}

// recorded waits until nothing is owed any more.
func (s *stage) recorded(ctx context.Context) error {
	return s.await(ctx, "everything to be recorded", func() (none bool, err error) {
		err = s.db.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM eventsvc.owed)`).Scan(&none)
		return none, err
	})
}

// arrived waits until a sink has read so many requests.
func (s *stage) arrived(ctx context.Context, k *sink, n int) error {
	return s.await(ctx, fmt.Sprintf("%d requests to arrive", n), func() (bool, error) {
		got := int(k.count.Load())
		s.tell(fmt.Sprintf("%s of %s have arrived", thousands(fmt.Sprint(got)), thousands(fmt.Sprint(n))))
		return got >= n, nil
	})
}

// whole holds the tables against what was fired or owed, and both against what arrived:
// nothing lost, nothing doubled. since is from before.
func (s *stage) whole(ctx context.Context, since counts, fired, deliveries int, sinks ...*sink) error {
	return s.tally(ctx, since, fired, deliveries, deliveries, sinks...)
}

// tally is whole, with so many attempts for the deliveries.
func (s *stage) tally(ctx context.Context, since counts, fired, deliveries, attempts int, sinks ...*sink) error {
	s.tell("counting")
	now, err := s.counts(ctx)
	if err != nil {
		return err
	}
	distinct, all := map[string]bool{}, 0
	for _, k := range sinks {
		for _, a := range k.arrivals() {
			distinct[a.id] = true
			all++
		}
		if n := k.forged.Load(); n > 0 {
			return fmt.Errorf("%d of the signatures that were checked were wrong", n)
		}
	}
	return cmp.Or(
		equal("events on record", now.events-since.events, fired),
		equal("deliveries that succeeded", now.succeeded-since.succeeded, deliveries),
		equal("deliveries that ended", now.settled-since.settled, deliveries),
		equal("attempts on record", now.attempts-since.attempts, attempts),
		equal("requests that arrived", all, attempts),
		equal("different deliveries that arrived", len(distinct), deliveries),
	)
}

func equal(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%s: %d, and %d were due", what, got, want)
	}
	return nil
}

// profiled profiles the service for a span, beside what is measured, where that was
// asked for. The caller waits for it.
func (s *stage) profiled(ctx context.Context, span time.Duration) (wait func()) {
	if s.options.Profiles == "" {
		return func() {}
	}
	s.profiles++
	done := make(chan error, 1)
	go func() {
		done <- s.service.profile(ctx, span, filepath.Join(s.options.Profiles, fmt.Sprintf("%02d-%s-%d.pprof", len(s.report.Scenarios), s.out.Name, s.profiles)))
	}()
	return func() { s.profileErr = cmp.Or(s.profileErr, <-done) }
}
