package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// ErrClaimLost says that a claim is no longer in force: another worker has the delivery,
// or it was settled, or handed back.
var ErrClaimLost = errors.New("the claim is no longer in force")

// Holding is a fence as a worker elsewhere knows it: by the name that it was enrolled
// under. The moment of the claim tells two of one name apart.
type Holding struct {
	event.Fence
	Worker string
}

// Held is a claim in force, read back.
type Held struct {
	event.Claim
	Worker   event.WorkerID
	For      time.Duration // since it was made, by the database's clock
	Revision int64         // of the registry
}

// Pulled is every target of a lane that workers elsewhere claim for and that is owed
// something, due or not, and the revision of the registry when it was read.
func (l *Ledger) Pulled(ctx context.Context, lane string) ([]event.TargetID, int64, error) {
	var targets []event.TargetID
	var revision int64
	err := l.pinned(ctx, sqlPulled, pg.Args{"lane": lane}, func(rows pgx.Rows) error {
		var id int32
		err := rows.Scan(&id, &revision)
		targets = append(targets, event.TargetID(id))
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list what workers elsewhere may claim: %w", err)
	}
	return targets, revision, nil
}

// Held reads a claim in force back. Errors are [ErrClaimLost] and [ErrNotFound].
func (l *Ledger) Held(ctx context.Context, by Holding) (Held, error) {
	var h Held
	found := false
	err := l.pinned(ctx, sqlHeld, by.args(), func(rows pgx.Rows) (err error) {
		found = true
		h.Claim, err = scanClaim(rows, &h.Revision, (*int32)(&h.Worker), &h.For)
		return err
	})
	switch {
	case err != nil:
		return Held{}, fmt.Errorf("read a claim back: %w", err)
	case !found:
		return Held{}, l.lost(ctx, by.Delivery)
	}
	return h, nil
}

// Extend has the lease of a claim in force end so long from now, and answers when that
// is. Errors are [ErrClaimLost] and [ErrNotFound].
func (l *Ledger) Extend(ctx context.Context, by Holding, lease time.Duration) (until time.Time, err error) {
	found := false
	args := by.args()
	args["lease"] = lease
	err = l.pinned(ctx, sqlExtend, args, func(rows pgx.Rows) error {
		found = true
		return rows.Scan(&until)
	})
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("extend a lease: %w", err)
	case !found:
		return time.Time{}, l.lost(ctx, by.Delivery)
	}
	return until, nil
}

func (h *Holding) args() pg.Args {
	return pg.Args{"id": [16]byte(h.Delivery), "claimed": h.ClaimedAt, "worker": h.Worker}
}

// lost tells a claim that is lost from a delivery that never was.
func (l *Ledger) lost(ctx context.Context, id event.ID) error {
	if _, err := l.eventOf(ctx, id); err != nil {
		return err
	}
	return ErrClaimLost
}
