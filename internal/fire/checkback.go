package fire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// When the caller of a prepared transaction is asked: first after checkFirst, then on
// checkCurve, checksMost times in all.
const (
	checkFirst = 10 * time.Second
	checksMost = 15
	checkLease = 30 * time.Second
	checkTime  = 10 * time.Second // for one answer
	checkEvery = time.Second      // that due ones are looked for
	checkBatch = 20               // asked at once
)

var checkCurve = event.Curve{Base: 10 * time.Second, Cap: time.Hour}

// question is one with its secret as it is stored.
type question struct {
	event.Question
	sealed []byte
}

// Ask puts a question, and answers with the status that came back.
type Ask func(ctx context.Context, q *event.Question) (status int, err error)

// CheckBack asks the callers of transactions that stay prepared what became of their own
// changes, and decides as they say, until the context ends. Several processes share the
// work.
func (d *Desk) CheckBack(ctx context.Context, ask Ask) {
	every := time.NewTicker(checkEvery)
	defer every.Stop()
	away := false
	for {
		n, err := d.checkDue(ctx, ask)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !away:
			d.log.ErrorContext(ctx, "prepared transactions could not be looked at", "err", err)
		}
		if away = err != nil; !away && n == checkBatch {
			continue // there may be more
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// checkDue puts the questions that are due, and answers how many there were.
func (d *Desk) checkDue(ctx context.Context, ask Ask) (int, error) {
	due, err := d.claimChecks(ctx)
	if err != nil {
		return 0, err
	}
	var asking sync.WaitGroup
	for i := range due {
		asking.Go(func() { d.check(ctx, ask, &due[i]) })
	}
	asking.Wait()
	return len(due), nil
}

func (d *Desk) claimChecks(ctx context.Context) ([]question, error) {
	rows, err := d.pool.Query(ctx, sqlClaimChecks, pg.Args{"n": checkBatch, "lease": checkLease})
	if err != nil {
		return nil, fmt.Errorf("take transactions to check: %w", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (q question, err error) {
		err = row.Scan((*[16]byte)(&q.Transaction), &q.Key, &q.Made, &q.URL, &q.sealed, &q.Number)
		return q, err
	})
	if err != nil {
		return nil, fmt.Errorf("take transactions to check: %w", err)
	}
	return due, nil
}

// check puts one question and does as it is answered: 200 commits, 409 rolls back, and
// anything else is for later.
func (d *Desk) check(ctx context.Context, ask Ask, q *question) {
	status, said := 0, "the last question has no answer: whoever asked it is gone"
	if q.Number <= checksMost {
		status, said = d.ask(ctx, ask, q)
	}
	var err error
	switch status {
	case http.StatusOK:
		_, err = d.Commit(ctx, q.Transaction, "")
	case http.StatusConflict:
		_, err = d.Rollback(ctx, q.Transaction, "")
	default:
		err = d.checkLater(ctx, q, said)
	}
	if err != nil && !errors.Is(err, ErrDecided) && ctx.Err() == nil {
		// Its lease lapses, and the caller is asked again.
		d.log.ErrorContext(ctx, "what a check was answered could not be kept", "transaction", q.Transaction.Text(event.TxPrefix), "err", err)
	}
}

func (d *Desk) ask(ctx context.Context, ask Ask, q *question) (status int, said string) {
	secret, err := d.sealer.OpenCheck(q.Transaction, q.sealed)
	if err != nil {
		return 0, "the secret of the check cannot be opened: " + err.Error()
	}
	q.Secret = secret
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	status, err = ask(ctx, &q.Question)
	if err != nil {
		return 0, err.Error()
	}
	return status, fmt.Sprintf("it was answered %d, which decides nothing", status)
}

// checkLater keeps what was said, and when to ask again, if at all.
func (d *Desk) checkLater(ctx context.Context, q *question, said string) error {
	var again *time.Duration
	if q.Number < checksMost {
		wait := checkCurve.Wait(q.Number, 0.5+rand.Float64()/2)
		again = &wait
	}
	var state event.TransactionState
	err := d.pool.QueryRow(ctx, sqlRecordCheck, pg.Args{"id": [16]byte(q.Transaction), "checks": q.Number, "checked": said, "again": again}).Scan(&state)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil // another asks, or it is decided
	case err != nil:
		return fmt.Errorf("keep a check: %w", err)
	case state == event.InDoubt:
		d.log.ErrorContext(ctx, "a transaction is in doubt: nobody says whether it is to be committed; commit it or roll it back", "transaction", q.Transaction.Text(event.TxPrefix), "checks", q.Number, "last", said)
	}
	return nil
}
