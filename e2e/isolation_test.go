package e2e

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

var isolationSpan = flag.Duration("isolation-span", 30*time.Second, "for how long BenchmarkIsolation measures beside each neighbour")

const (
	isolationRate = 50 // fires a second to the receiver that is well
	isolationWarm = 3 * time.Second
)

// neighbour is what a receiver that is well is measured beside.
type neighbour struct {
	name string
	move func(b *testing.B, p *process, db *pgxpool.Pool)
}

var neighbours = []neighbour{
	{"alone", func(*testing.B, *process, *pgxpool.Pool) {}},
	{"300 deliveries to a target of 4 s", func(b *testing.B, p *process, db *pgxpool.Pool) {
		p.owed(b, db, "slow", `"url":"`+slow(b, 4*time.Second)+`"`, 300)
	}},
	{"1,000,000 owed to a dead target", func(b *testing.B, p *process, db *pgxpool.Pool) {
		p.owed(b, db, "dead", `"url":"`+refusing(b)+`"`, 1_000_000)
	}},
	{"1,000,000 owed to a paused target", func(b *testing.B, p *process, db *pgxpool.Pool) {
		p.declare(b, "paused", `{"events":["bulk"],"url":"`+slow(b, 0)+`"}`)
		p.call(b, "POST", "/v1/receivers/paused/pause", "")
		p.owed(b, db, "paused", `"url":"`+slow(b, 0)+`"`, 1_000_000)
	}},
	{"40 slow targets, 300 deliveries each", func(b *testing.B, p *process, db *pgxpool.Pool) {
		url := slow(b, 4*time.Second)
		for n := range 40 {
			p.owed(b, db, fmt.Sprintf("slow-%d", n), `"url":"`+url+`"`, 300)
		}
	}},
	{"10,000 owed to one that never answers", func(b *testing.B, p *process, db *pgxpool.Pool) {
		p.owed(b, db, "hole", `"url":"`+silent(b)+`"`, 10_000)
	}},
	{"100,000 owed to one limited to 10/s", func(b *testing.B, p *process, db *pgxpool.Pool) {
		p.owed(b, db, "limited", `"url":"`+slow(b, 0)+`","rate_limit":"10/s"`, 100_000)
	}},
}

// BenchmarkIsolation measures how long an event takes from its POST to the receiver's
// door, for a receiver that is well, beside neighbours that are not (P4). It is run by
// make bench-isolation; BENCHMARKS.md has what was seen.
func BenchmarkIsolation(b *testing.B) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "beside\tp50\tp99\tmost\tarrived\tattempts beside\t")
	for _, n := range neighbours {
		b.Run(n.name, func(b *testing.B) {
			url := pgtest.URL(b)
			p := start(b, url, nil, "serve")
			well := newDoor(b)
			p.declare(b, "well", `{"events":["tick"],"url":"`+well.URL+`"}`)
			db := pgtest.Open(b, url)
			n.move(b, p, db)
			p.tick(b, well, isolationWarm)
			before := attemptsBeside(b, db)
			took, fired := p.tick(b, well, *isolationSpan)
			beside := attemptsBeside(b, db) - before
			if len(took) == 0 {
				b.Fatal("nothing arrived")
			}
			at := func(share float64) time.Duration { return took[int(share*float64(len(took)-1))] }
			round := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
			fmt.Fprintf(table, "%s\t%v\t%v\t%v\t%d of %d\t%d\t\n", n.name, round(at(0.5)), round(at(0.99)), round(at(1)), len(took), fired, beside)
			b.ReportMetric(at(0.5).Seconds()*1000, "p50-ms")
			b.ReportMetric(at(0.99).Seconds()*1000, "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
	table.Flush()
}

// attemptsBeside is how many attempts were recorded of what the neighbours are owed.
func attemptsBeside(b *testing.B, db *pgxpool.Pool) (n int) {
	if err := db.QueryRow(b.Context(), `SELECT count(*) FROM eventsvc.attempts a JOIN eventsvc.events e ON e.id = a.event_id WHERE e.type = 'bulk'`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// door is a receiver that notes when what came.
type door struct {
	*httptest.Server
	mu    sync.Mutex
	next  int
	fired map[string]time.Time
	took  []time.Duration
}

func newDoor(b *testing.B) *door {
	d := &door{fired: map[string]time.Time{}}
	d.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := time.Now()
		var body struct{ Data string }
		if json.NewDecoder(r.Body).Decode(&body) != nil {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if at, ok := d.fired[body.Data]; ok {
			delete(d.fired, body.Data)
			d.took = append(d.took, now.Sub(at))
		}
	}))
	b.Cleanup(d.Close)
	return d
}

// tick fires evenly, whether answers come or not, and gives how long each took to arrive,
// shortest first. What is still under way at the end is waited for, for a while.
func (p *process) tick(b *testing.B, d *door, span time.Duration) (took []time.Duration, fired int) {
	var calls sync.WaitGroup
	clock := time.NewTicker(time.Second / isolationRate)
	defer clock.Stop()
	for began := time.Now(); time.Since(began) < span; fired++ {
		<-clock.C
		calls.Go(func() {
			d.mu.Lock()
			d.next++
			key := fmt.Sprint(d.next)
			d.fired[key] = time.Now()
			d.mu.Unlock()
			if a, err := p.try("POST", "/v1/events", `{"type":"tick","data":"`+key+`"}`, "Idempotency-Key", key); err != nil || a.status != 201 {
				b.Errorf("fire: %v %d %s", err, a.status, a.text)
			}
		})
	}
	calls.Wait()
	late := time.After(10 * time.Second)
	for {
		d.mu.Lock()
		left := len(d.fired)
		if left == 0 {
			took, d.took = d.took, nil
		}
		d.mu.Unlock()
		if left == 0 {
			slices.SortFunc(took, cmp.Compare[time.Duration])
			return took, fired
		}
		select {
		case <-clock.C:
		case <-late:
			b.Fatalf("%d of %d never arrived", left, fired)
		}
	}
}

// owed declares a receiver and writes that it is owed so many events, as if they had been
// fired a minute ago.
func (p *process) owed(b *testing.B, db *pgxpool.Pool, key, terms string, n int) {
	b.Helper()
	p.declare(b, key, `{"events":["bulk"],`+terms+`}`)
	const sql = `
		WITH written AS (
		  INSERT INTO eventsvc.events (id, type, producer, idempotency_key, data)
		  SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(t.id), 3, '0') || lpad(to_hex(n), 16, '8000000000000000'))::uuid,
		         'bulk', 0, $1 || n, '{"n":1}'
		  FROM eventsvc.targets t JOIN eventsvc.receivers r ON r.id = t.receiver_id, generate_series(1, $2::integer) n
		  WHERE r.key = $1
		  RETURNING id
		)
		INSERT INTO eventsvc.owed (id, event_id, target_id, max_attempts, available_at, owed_since)
		SELECT w.id, w.id, t.id, 20, now() - interval '1 minute', now() - interval '1 minute'
		FROM written w, eventsvc.targets t JOIN eventsvc.receivers r ON r.id = t.receiver_id
		WHERE r.key = $1`
	if _, err := db.Exec(b.Context(), sql, key, n); err != nil {
		b.Fatal(err)
	}
	// What grows over days has been looked at by autovacuum.
	if _, err := db.Exec(b.Context(), `ANALYZE eventsvc.events, eventsvc.owed`); err != nil {
		b.Fatal(err)
	}
}

// slow is a receiver that takes its time.
func slow(b *testing.B, takes time.Duration) string {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(takes):
		case <-r.Context().Done():
		}
	}))
	b.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// refusing is an address at which nobody listens.
func refusing(b *testing.B) string {
	l := listen(b)
	l.Close()
	return "http://" + l.Addr().String()
}

// silent is one that takes connections and never says anything.
func silent(b *testing.B) string {
	l := listen(b)
	b.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}

func listen(b *testing.B) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return l
}
