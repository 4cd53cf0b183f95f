package bench

import (
	"context"
	_ "embed"
)

//go:embed sql/statements.sql
var sqlStatements string

// cost is what the database has done so far.
type cost struct {
	commits, wal      float64
	statements        float64 // with the next two only where pg_stat_statements is
	claimMS, recordMS float64
	counted           bool
}

func (s *stage) cost(ctx context.Context) (c cost, err error) {
	err = s.db.QueryRow(ctx, `SELECT xact_commit::float8, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 FROM pg_stat_database WHERE datname = current_database()`).
		Scan(&c.commits, &c.wal)
	if err != nil {
		return c, err
	}
	c.counted = s.db.QueryRow(ctx, sqlStatements).Scan(&c.statements, &c.claimMS, &c.recordMS) == nil
	return c, nil
}

// disk is what is kept of events and what became of them, in bytes.
func (s *stage) disk(ctx context.Context) (bytes float64, err error) {
	err = s.db.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'eventsvc' AND c.relkind = 'r' AND c.relname ~ '^(events|settled|attempts|fire_keys)(_\d+)?$'`).Scan(&bytes)
	return bytes, err
}

// costs notes what each of n deliveries has cost the database since. The service has
// stopped: its connections have then said all that they have done.
func (s *stage) costs(ctx context.Context, since cost, n float64) error {
	now, err := s.cost(ctx)
	if err != nil {
		return err
	}
	s.figure("commits per delivery", (now.commits-since.commits)/n, "")
	s.figure("WAL per delivery", (now.wal-since.wal)/n, "bytes")
	if since.counted && now.counted {
		s.figure("statements per delivery", (now.statements-since.statements)/n, "")
		s.figure(claimCost, (now.claimMS-since.claimMS)/n*1000, "µs")
		s.figure(recordCost, (now.recordMS-since.recordMS)/n*1000, "µs")
	}
	return nil
}

const (
	claimCost  = "claim, per row in the database"
	recordCost = "record, per row in the database"
)
