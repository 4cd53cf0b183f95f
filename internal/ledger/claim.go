package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Quota is how much of one target to claim.
type Quota struct {
	Target event.TargetID
	N      int           // at most so many rows
	Lease  time.Duration // for each
	// Floor skips rows that became available before it, or is zero for none. It spares
	// the scan over index entries of rows that are gone, which a long transaction
	// elsewhere keeps vacuum from removing. It is an optimisation with a margin: rows
	// below it are found by a claim without floor, which must come at least once a
	// second.
	Floor time.Time
}

// Claims is what a claim came to.
type Claims struct {
	Claims []event.Claim // by available_at, then id
	// Revision of the registry when the rows were claimed.
	Revision int64
}

// Claim leases due deliveries to a worker: for each target up to its quota, in the
// order of available_at and then id. Two workers never take the same row. maxClaims is
// after how many lost claims a row is dead with class poison instead.
func (l *Ledger) Claim(ctx context.Context, worker event.WorkerID, maxClaims int, quotas []Quota) (Claims, error) {
	n := len(quotas)
	targets, counts := make([]int32, n), make([]int32, n)
	floors, leases := make([]pgtype.Timestamptz, n), make([]time.Duration, n)
	for i, q := range quotas {
		targets[i], counts[i], leases[i] = int32(q.Target), int32(q.N), q.Lease
		floors[i] = pgtype.Timestamptz{Time: q.Floor, Valid: true}
		if q.Floor.IsZero() {
			floors[i].InfinityModifier = pgtype.NegativeInfinity
		}
	}
	args := pgx.NamedArgs{
		"targets": targets, "quotas": counts, "floors": floors, "leases": leases,
		"worker": int32(worker), "max_claims": maxClaims,
	}
	var claimed Claims
	err := l.pinned(ctx, sqlClaim, args, func(rows pgx.Rows) error {
		c, err := scanClaim(rows, &claimed.Revision)
		claimed.Claims = append(claimed.Claims, c)
		return err
	})
	if err != nil {
		return Claims{}, fmt.Errorf("claim: %w", err)
	}
	// RETURNING promises no order.
	slices.SortFunc(claimed.Claims, func(x, y event.Claim) int {
		if c := x.AvailableAt.Compare(y.AvailableAt); c != 0 {
			return c
		}
		return bytes.Compare(x.Delivery[:], y.Delivery[:])
	})
	return claimed, nil
}

func scanClaim(rows pgx.Rows, revision *int64) (event.Claim, error) {
	var c event.Claim
	var dueAt, occurredAt *time.Time
	var attempts, maxAttempts, sending int16
	e := &c.Event
	err := rows.Scan((*[16]byte)(&c.Delivery), (*[16]byte)(&e.ID), (*int32)(&c.TargetID), &attempts, &maxAttempts, &sending,
		&c.ClaimedAt, &c.LeaseUntil, &c.AvailableAt, &dueAt, &c.OwedSince,
		&e.Type, &e.Data, &e.RecordedAt, &occurredAt, &e.Tenant, &e.Subject, &e.Source,
		&e.CorrelationID, &e.CausationID, &e.TraceParent, revision)
	c.Attempts, c.MaxAttempts, c.Sending = int(attempts), int(maxAttempts), int(sending)
	if dueAt != nil {
		c.DueAt = *dueAt
	}
	if occurredAt != nil {
		e.OccurredAt = *occurredAt
	}
	return c, err
}

// Release hands claims back unspent; the rows keep their place. Claims that were lost
// meanwhile are passed over.
func (l *Ledger) Release(ctx context.Context, worker event.WorkerID, fences []event.Fence) error {
	slices.SortFunc(fences, func(x, y event.Fence) int { return x.Delivery.Compare(y.Delivery) })
	ids, claimed := make([][16]byte, len(fences)), make([]time.Time, len(fences))
	for i, f := range fences {
		ids[i], claimed[i] = f.Delivery, f.ClaimedAt
	}
	args := pgx.NamedArgs{"ids": ids, "claimed": claimed, "worker": int32(worker)}
	if err := l.pinned(ctx, sqlRelease, args, func(pgx.Rows) error { return nil }); err != nil {
		return fmt.Errorf("release %d claims: %w", len(fences), err)
	}
	return nil
}

// Backlog is every target that is owed something, due or not, and the revision of the
// registry when it was read.
func (l *Ledger) Backlog(ctx context.Context) ([]event.TargetID, int64, error) {
	var targets []event.TargetID
	var revision int64
	err := l.pinned(ctx, sqlBacklog, nil, func(rows pgx.Rows) error {
		var id int32
		err := rows.Scan(&id, &revision)
		targets = append(targets, event.TargetID(id))
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list the backlog: %w", err)
	}
	return targets, revision, nil
}
