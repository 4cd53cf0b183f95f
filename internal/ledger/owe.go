package ledger

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Debt is a delivery that is about to be owed.
type Debt struct {
	ID          event.ID
	EventID     event.ID
	TargetID    event.TargetID
	MaxAttempts int
	Format      event.Format
	Due         time.Duration // after recorded_at
}

// Owe queues the writing of debts behind the statement that writes their events, in
// the same transaction. A debt whose event was not written there, because its key had
// been spent, is passed over.
func Owe(b *pgx.Batch, debts []Debt) *pgx.QueuedQuery {
	n := len(debts)
	ids, events := make([][16]byte, n), make([][16]byte, n)
	targets, budgets, kinds, dues := make([]int32, n), make([]int16, n), make([]int16, n), make([]time.Duration, n)
	for i, d := range debts {
		ids[i], events[i] = d.ID, d.EventID
		targets[i], budgets[i], kinds[i], dues[i] = int32(d.TargetID), int16(d.MaxAttempts), formatNumber(d.Format), d.Due
	}
	return b.Queue(sqlOwe, pg.Args{"ids": ids, "events": events, "targets": targets, "budgets": budgets, "formats": kinds, "dues": dues})
}
