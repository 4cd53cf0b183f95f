package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestEveryStatementSuitsTheSchemaAndSaysWhatItDoes(t *testing.T) { pgtest.Statements(t, "ledger") }

// Plans flip on tables that were just filled, when the planner still takes them for
// empty: a record batch was seen to take a second instead of milliseconds. They are
// held to their indexes here with a big past, a backlog, and no ANALYZE.
func TestHotStatementsNeverScanTheirTables(t *testing.T) {
	b := open(t)
	b.exec(t, `ALTER TABLE eventsvc.owed SET (autovacuum_enabled = off)`)
	b.exec(t, `ANALYZE eventsvc.owed, eventsvc.settled, eventsvc.attempts, eventsvc.events`) // while they are empty
	target := b.target(t, "k")
	b.exec(t, `INSERT INTO eventsvc.settled (event_id, target_id, id, status, attempts, max_attempts, sending, owed_since, due_at)
		SELECT eventsvc.uuid_floor(now()), n, gen_random_uuid(), 'succeeded', 1, 20, 1, now(), '-infinity'
		FROM generate_series(1, 500000) n`)
	b.exec(t, `INSERT INTO eventsvc.owed (id, event_id, target_id, max_attempts, available_at, owed_since)
		SELECT gen_random_uuid(), gen_random_uuid(), $1, 20, now(), now() FROM generate_series(1, 50000) n`, int32(target))

	entries := make([]ledger.Entry, 1000)
	for i := range entries {
		entries[i] = ledger.Entry{Fence: event.Fence{Delivery: event.NewID(time.Now()), ClaimedAt: time.Now()},
			Settlement: event.Settlement{Status: event.Failed, Outcome: event.OutcomeFailed}}
	}
	floor := time.Now().Add(-time.Hour)
	for name, statement := range map[string]struct {
		sql  string
		args pg.Args
	}{
		"claim": {ledger.SQLClaim, pg.Args{"targets": []int32{int32(target)}, "quotas": []int32{100}, "floors": []time.Time{floor}, "floor_ids": [][16]byte{{}},
			"leases": []time.Duration{time.Minute}, "worker": 1, "max_claims": 10}},
		"record":            {ledger.SQLRecord, ledger.RecordArgs(entries)},
		"release":           {ledger.SQLRelease, pg.Args{"ids": [][16]byte{entries[0].Delivery}, "claimed": []time.Time{floor}, "worker": 1}},
		"backlog":           {ledger.SQLBacklog, nil},
		"hand over":         {ledger.SQLHandOver, pg.Args{"id": [16]byte(entries[0].Delivery), "claimed": floor, "worker": 1, "lease": time.Minute}},
		"take":              {ledger.SQLTake, pg.Args{"id": [16]byte(entries[0].Delivery), "claimed": floor, "worker": 1, "by": 2}},
		"take back":         {ledger.SQLTakeBack, pg.Args{"id": [16]byte(entries[0].Delivery), "claimed": floor, "worker": 1}},
		"pulled":            {ledger.SQLPulled, pg.Args{"lane": "default"}},
		"held":              {ledger.SQLHeld, pg.Args{"id": [16]byte(entries[0].Delivery), "claimed": floor, "worker": "w"}},
		"extend":            {ledger.SQLExtend, pg.Args{"id": [16]byte(entries[0].Delivery), "claimed": floor, "worker": "w", "lease": time.Minute}},
		"claim fresh":       {ledger.SQLClaimFresh, pg.Args{"ids": [][16]byte{entries[0].Delivery}, "leases": []time.Duration{time.Minute}, "worker": 1}},
		"untried":           {ledger.SQLUntried, pg.Args{"ids": [][16]byte{entries[0].Delivery}, "event": [16]byte(entries[0].Delivery)}},
		"forget attempts":   {ledger.SQLForgetAttempts, pg.Args{"events": [][16]byte{entries[0].Delivery}, "n": 100}},
		"forget deliveries": {ledger.SQLForgetSettled, pg.Args{"events": [][16]byte{entries[0].Delivery}, "n": 100}},
		"owe": {ledger.SQLOwe, pg.Args{"ids": [][16]byte{entries[0].Delivery}, "events": [][16]byte{entries[0].Delivery},
			"targets": []int32{1}, "budgets": []int16{1}, "formats": []int16{0}, "dues": []time.Duration{0}}},
	} {
		plan := explain(t, b, statement.sql, statement.args)
		if line := whole(plan); line != "" && name != "backlog" { // which skips through its index
			t.Errorf("%s reads the whole of a table or index at %s:\n%s", name, line, plan)
		}
	}
}

// whole is where a plan reads all of a large table, or of an index of one, or is empty.
func whole(plan string) string {
	lines := strings.Split(plan+"\n", "\n")
	for i, line := range lines {
		for _, table := range []string{"owed", "settled", "attempts", "events"} {
			indexed := strings.Contains(line, "Index") && strings.Contains(line, " on "+table)
			if strings.Contains(line, "Seq Scan on "+table) || strings.Contains(line, "Bitmap") || indexed && !strings.Contains(lines[i+1], "Index Cond") {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

func explain(t *testing.T, b *books, sql string, args pg.Args) string {
	t.Helper()
	return explainWith(t, b, "EXPLAIN ", sql, args)
}

func explainWith(t *testing.T, b *books, how, sql string, args pg.Args) string {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), ledger.SQLPin, pg.Args{"lock_timeout": "5s"}); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), how+sql, args)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// A claim writes no index entry: that is what keeps its cost apart from the churn.
func TestClaimsAndReleasesAreHOTUpdates(t *testing.T) {
	// One connection, whose statistics can be told at once.
	pool, err := pg.Open(t.Context(), pgtest.URL(t), pg.PoolOptions{Name: "test", MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := &books{ledger.New(pool), pool, 1}
	target := b.target(t, "k")
	b.owe(t, target, 200)
	for range 3 {
		claims := b.claim(t, b.worker, target, 200)
		fences := make([]event.Fence, len(claims))
		for i, c := range claims {
			fences[i] = c.Fence
		}
		if err := b.Release(t.Context(), b.worker, fences); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(t, `SELECT pg_stat_force_next_flush()`)
	var updates, hot int
	err = pool.QueryRow(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'eventsvc.owed'::regclass`).Scan(&updates, &hot)
	if err != nil {
		t.Fatal(err)
	}
	if updates != 6*200 || hot != updates {
		t.Errorf("%d of %d updates were HOT, want all of 1200", hot, updates)
	}
}

// P4: what a claim reads does not grow with what its target is owed, nor, above a floor,
// with what was claimed before, though an old transaction keeps vacuum from removing it.
func TestAClaimFromALargeBacklogReadsWhatOneFromASmallBacklogDoes(t *testing.T) {
	b := open(t)
	b.exec(t, `ALTER TABLE eventsvc.owed SET (autovacuum_enabled = off)`)
	small, large := b.target(t, "small"), b.target(t, "large")
	for target, n := range map[event.TargetID]int{small: 10, large: 100_000} { // which were owed at one moment
		b.exec(t, `INSERT INTO eventsvc.owed (id, event_id, target_id, max_attempts, available_at, owed_since)
			SELECT gen_random_uuid(), gen_random_uuid(), $1, 20, now() - interval '6 hours', now() FROM generate_series(1, $2::integer) n`, int32(target), n)
	}
	b.exec(t, `ANALYZE eventsvc.owed`)
	old, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback(t.Context())
	if _, err := old.Exec(t.Context(), `SELECT count(*) FROM eventsvc.owed`); err != nil {
		t.Fatal(err)
	}
	// Half have failed since.
	var floor ledger.Place
	err = b.pool.QueryRow(t.Context(), `
		WITH gone AS (
		  UPDATE eventsvc.owed SET available_at = now() + interval '1 hour'
		  WHERE id IN (SELECT id FROM eventsvc.owed WHERE target_id = $1 ORDER BY id LIMIT 50000) RETURNING id)
		SELECT available_at, id FROM eventsvc.owed
		WHERE target_id = $1 AND id NOT IN (SELECT id FROM gone) ORDER BY id LIMIT 1`, int32(large)).Scan(&floor.AvailableAt, (*[16]byte)(&floor.Delivery))
	if err != nil {
		t.Fatal(err)
	}
	reads := func(target event.TargetID, floor ledger.Place) int {
		t.Helper()
		plan := explainWith(t, b, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ", ledger.SQLClaim, pg.Args{"targets": []int32{int32(target)}, "quotas": []int32{10},
			"floors": []time.Time{floor.AvailableAt}, "floor_ids": [][16]byte{floor.Delivery}, "leases": []time.Duration{time.Minute}, "worker": 1, "max_claims": 10})
		var of []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal([]byte(plan), &of); err != nil {
			t.Fatal(err)
		}
		return of[0].Plan.Hit + of[0].Plan.Read
	}
	few, many := reads(small, ledger.Place{AvailableAt: time.Now().Add(-24 * time.Hour)}), reads(large, floor)
	if few < 20 || many > few+40 {
		t.Errorf("a claim reads %d pages for a target that is owed 10, and %d for one that is owed 50,000", few, many)
	}
}
