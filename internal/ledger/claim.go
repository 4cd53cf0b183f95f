package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Quota is how much of one target to claim.
type Quota struct {
	Target event.TargetID
	N      int           // at most so many rows
	Lease  time.Duration // for each
	// Floor skips rows before it, or is zero for none. It spares the scan over index
	// entries of rows that are gone, which a long transaction elsewhere keeps vacuum from
	// removing. It is an optimisation: that there is something below it is found by
	// [Ledger.Backlog].
	Floor Place
}

// Place is where a delivery stands in what its target is owed: by available_at, then id.
// Many have the moment in common that a bulk or a replay owed them.
type Place struct {
	AvailableAt time.Time
	Delivery    event.ID
}

// PlaceOf is the place that a claim was taken from.
func PlaceOf(c *event.Claim) Place { return Place{c.AvailableAt, c.Delivery} }

// Compare orders places as claims are made.
func (p Place) Compare(q Place) int {
	if c := p.AvailableAt.Compare(q.AvailableAt); c != 0 {
		return c
	}
	return p.Delivery.Compare(q.Delivery)
}

// InOrder orders claims by their places.
func InOrder(x, y *event.Claim) int { return PlaceOf(x).Compare(PlaceOf(y)) }

// Claims is what a claim came to.
type Claims struct {
	Claims []*event.Claim // by available_at, then id
	// Revision of the registry when the rows were claimed.
	Revision int64
}

// Claim leases due deliveries to a worker: for each target up to its quota, in the
// order of available_at and then id. Two workers never take the same row. maxClaims is
// after how many lost claims a row is dead with class poison instead.
func (l *Ledger) Claim(ctx context.Context, worker event.WorkerID, maxClaims int, quotas []Quota) (Claims, error) {
	n := len(quotas)
	targets, counts := make([]int32, n), make([]int32, n)
	floors, floorIDs, leases := make([]pgtype.Timestamptz, n), make([][16]byte, n), make([]time.Duration, n)
	for i, q := range quotas {
		targets[i], counts[i], leases[i] = int32(q.Target), int32(q.N), q.Lease
		floors[i], floorIDs[i] = pgtype.Timestamptz{Time: q.Floor.AvailableAt, Valid: true}, q.Floor.Delivery
		if q.Floor.AvailableAt.IsZero() {
			floors[i].InfinityModifier = pgtype.NegativeInfinity
		}
	}
	args := pg.Args{
		"targets": targets, "quotas": counts, "floors": floors, "floor_ids": floorIDs, "leases": leases,
		"worker": int32(worker), "max_claims": maxClaims,
	}
	var claimed Claims
	var row claimRow
	err := l.pinned(ctx, sqlClaim, args, func(rows pgx.Rows) error {
		c, err := row.scan(rows, &claimed.Revision)
		claimed.Claims = append(claimed.Claims, c)
		return err
	})
	if err != nil {
		return Claims{}, fmt.Errorf("claim: %w", err)
	}
	// RETURNING promises no order.
	slices.SortFunc(claimed.Claims, InOrder)
	return claimed, nil
}

// TargetOf is whom a delivery is owed to, and the registry's revision. Errors are
// [ErrNotFound] and [ErrEnded].
func (l *Ledger) TargetOf(ctx context.Context, id event.ID) (target event.TargetID, revision int64, err error) {
	err = l.pool.QueryRow(ctx, sqlTargetOf, pg.Args{"id": [16]byte(id)}).Scan((*int32)(&target), &revision)
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err := l.eventOf(ctx, id); err != nil {
			return 0, 0, err
		}
		return 0, 0, ErrEnded
	}
	if err != nil {
		return 0, 0, fmt.Errorf("look up whom a delivery is for: %w", err)
	}
	return target, revision, nil
}

// ClaimOne leases one delivery that nobody holds, whether it is due or not, and answers
// the registry's revision with it. Errors are [ErrClaimed], [ErrEnded] and [ErrNotFound].
func (l *Ledger) ClaimOne(ctx context.Context, worker event.WorkerID, id event.ID, lease time.Duration) (c event.Claim, revision int64, err error) {
	found := false
	args := pg.Args{"id": [16]byte(id), "worker": int32(worker), "lease": lease}
	err = l.pinned(ctx, sqlClaimOne, args, func(rows pgx.Rows) (err error) {
		found = true
		c, err = scanClaim(rows, &revision)
		return err
	})
	switch {
	case err != nil:
		return c, 0, fmt.Errorf("claim one delivery: %w", err)
	case found:
		return c, revision, nil
	}
	if _, _, err := l.TargetOf(ctx, id); err != nil {
		return c, 0, err
	}
	return c, 0, ErrClaimed
}

// Report says that a worker lives and which lanes it serves (nil: all), and how long
// ago targets last acknowledged something to it.
func (l *Ledger) Report(ctx context.Context, worker event.WorkerID, lanes []string, succeeded map[event.TargetID]time.Duration) error {
	targets, ages := make([]int32, 0, len(succeeded)), make([]time.Duration, 0, len(succeeded))
	for id, ago := range succeeded {
		targets, ages = append(targets, int32(id)), append(ages, ago)
	}
	args := pg.Args{"worker": int32(worker), "lanes": lanes, "targets": targets, "ages": ages}
	if _, err := l.pool.Exec(ctx, sqlReport, args); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// claimRow is a row that every claim is answered with, to be read one after the other.
type claimRow struct {
	attempts, maxAttempts, sending, format int16
	dueAt, occurredAt                      pgtype.Timestamptz
	into                                   []any
}

// scan reads a row, and what the statement adds to it.
func (r *claimRow) scan(rows pgx.Rows, more ...any) (*event.Claim, error) {
	c := new(event.Claim)
	e := &c.Event
	r.into = append(r.into[:0], (*[16]byte)(&c.Delivery), (*[16]byte)(&e.ID), (*int32)(&c.TargetID), &r.attempts, &r.maxAttempts, &r.sending, &r.format,
		&c.ClaimedAt, &c.LeaseUntil, &c.AvailableAt, &r.dueAt, &c.OwedSince,
		&e.Type, &e.Data, &e.RecordedAt, &r.occurredAt, &e.Tenant, &e.Subject, &e.Source,
		&e.CorrelationID, &e.CausationID, &e.TraceParent)
	err := rows.Scan(append(r.into, more...)...)
	c.Attempts, c.MaxAttempts, c.Sending, c.Format = int(r.attempts), int(r.maxAttempts), int(r.sending), formatOf(r.format)
	c.DueAt, e.OccurredAt = r.dueAt.Time, r.occurredAt.Time
	return c, err
}

// scanClaim reads the one row of a claim.
func scanClaim(rows pgx.Rows, more ...any) (event.Claim, error) {
	c, err := new(claimRow).scan(rows, more...)
	return *c, err
}

// Release hands claims back unspent; the rows keep their place. Claims that were lost
// meanwhile are passed over.
func (l *Ledger) Release(ctx context.Context, worker event.WorkerID, fences []event.Fence) error {
	slices.SortFunc(fences, func(x, y event.Fence) int { return x.Delivery.Compare(y.Delivery) })
	ids, claimed := make([][16]byte, len(fences)), make([]time.Time, len(fences))
	for i, f := range fences {
		ids[i], claimed[i] = f.Delivery, f.ClaimedAt
	}
	args := pg.Args{"ids": ids, "claimed": claimed, "worker": int32(worker)}
	if err := l.pinned(ctx, sqlRelease, args, func(pgx.Rows) error { return nil }); err != nil {
		return fmt.Errorf("release %d claims: %w", len(fences), err)
	}
	return nil
}

// Head is the first delivery of a target that could be claimed.
type Head struct {
	Target event.TargetID
	Place
}

// Backlog is the head of every target that is owed something which could be claimed now,
// and the revision of the registry when it was read.
func (l *Ledger) Backlog(ctx context.Context) ([]Head, int64, error) {
	var heads []Head
	var revision int64
	err := l.pinned(ctx, sqlBacklog, nil, func(rows pgx.Rows) error {
		var h Head
		err := rows.Scan((*int32)(&h.Target), &h.AvailableAt, (*[16]byte)(&h.Delivery), &revision)
		heads = append(heads, h)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list the backlog: %w", err)
	}
	return heads, revision, nil
}
