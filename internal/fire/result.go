package fire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// maxResultFires bounds the events of one result.
const maxResultFires = 100

// result is what a receiver answers to have done with the record of its success.
type result struct {
	Fire []child `json:"fire"`
}

// child is an event that a receiver fires by its answer. Its chain and its cause are those of
// the event that it was told.
type child struct {
	Type       string             `json:"type"`
	Data       jsontext.Value     `json:"data"`
	Tenant     string             `json:"tenant"`
	Subject    string             `json:"subject"`
	Source     string             `json:"source"`
	OccurredAt *time.Time         `json:"occurred_at"`
	Actor      *event.Actor       `json:"actor"`
	Metadata   map[string]string  `json:"metadata"`
	Suppress   *event.Suppression `json:"suppress"`
}

// Acknowledge records a success together with the events that its answer asked to have
// fired, under the claim's fence: both or neither, so a delivery that is made twice fires
// them once. False: the claim was lost. What cannot be fired makes the attempt a failed one,
// which is answered instead.
func (d *Desk) Acknowledge(ctx context.Context, worker event.WorkerID, c *event.Claim, e ledger.Entry, v *event.Verdict, lapse time.Time) (recorded bool, instead *event.Verdict) {
	slips, err := d.readResult(ctx, c, v.Result)
	for pause := 100 * time.Millisecond; err == nil; pause = min(2*pause, 2*time.Second) {
		var plans []plan
		recorded, plans, err = d.acknowledge(ctx, worker, e, slips)
		if err == nil {
			d.told(plans)
			return recorded, nil
		}
		if !pg.Unavailable(err) && !pg.Retryable(err) && !pg.LockTimeout(err) && !errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if time.Now().Add(pause).After(lapse) || !wait(ctx, pause) {
			d.log.WarnContext(ctx, "a success whose answer fires events could not be recorded before its lease ended", "delivery", c.Delivery.Text(event.DeliveryPrefix), "err", err)
			return false, nil
		}
		err = nil
	}
	return false, d.unfireable(ctx, c, v, err)
}

// unfireable is the verdict where what an answer asked for cannot be fired.
func (d *Desk) unfireable(ctx context.Context, c *event.Claim, v *event.Verdict, err error) *event.Verdict {
	var part PartError
	var flaws event.Flaws
	failed := *v
	failed.Ruling, failed.Class, failed.Result = event.Failure, event.ClassProtocol, nil
	switch {
	case errors.As(err, &part) && errors.As(err, &flaws):
		failed.Reason = fmt.Sprintf("the result in the answer cannot be fired: /fire/%d%s %s", part.Part, flaws[0].Pointer, flaws[0].Message)
	case errors.As(err, &part), errors.As(err, &flaws), errors.Is(err, ErrTooWide), errors.Is(err, errNoResult):
		failed.Reason = "the result in the answer cannot be fired: " + err.Error()
	default:
		d.log.ErrorContext(ctx, "a success whose answer fires events could not be recorded", "delivery", c.Delivery.Text(event.DeliveryPrefix), "err", err)
		failed.Reason = "the result in the answer could not be fired"
	}
	return &failed
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errNoResult = errors.New("it is no JSON object with fire, an array of up to 100 events")

// readResult reads what is to be fired, and holds it to its types.
func (d *Desk) readResult(ctx context.Context, c *event.Claim, raw []byte) ([]*slip, error) {
	var r result
	err := json.Unmarshal(bytes.TrimSpace(raw), &r, json.RejectUnknownMembers(true))
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &semantic) && errors.Is(semantic.Err, json.ErrUnknownName):
		return nil, fmt.Errorf("%w: %s is not known here", errNoResult, semantic.JSONPointer)
	case err != nil || len(r.Fire) > maxResultFires:
		return nil, errNoResult
	}
	slips := make([]*slip, len(r.Fire))
	for i := range r.Fire {
		draft := r.Fire[i].draft(c, i, len(r.Fire))
		if err := draft.Check().Err(); err != nil {
			return nil, PartError{i, err}
		}
		if len(draft.Data) > event.MaxData {
			return nil, PartError{i, fmt.Errorf("data is %d bytes; at most %d are allowed", len(draft.Data), event.MaxData)}
		}
		kind, err := d.hold(ctx, draft)
		if err != nil {
			return nil, PartError{i, err}
		}
		slips[i] = newSlip(draft, kind)
	}
	return slips, nil
}

// draft is the child as an event of its parent's. Its key has a space, which no caller's
// has, and names the delivery and not the attempt: told again, it is the same event.
func (x *child) draft(c *event.Claim, place, of int) *Draft {
	parent := c.Event.ID.Text(event.EventPrefix)
	draft := &Draft{
		Key: fmt.Sprintf("result %s/%0*d", c.Context().WebhookID, len(fmt.Sprint(of)), place), Type: x.Type, Data: x.Data,
		Facts: event.Facts{
			Tenant: cmp.Or(c.To.Tenant, c.To.Receiver.Tenant, x.Tenant, c.Event.Tenant), Subject: x.Subject, Source: x.Source, Actor: x.Actor, Metadata: x.Metadata, Suppress: x.Suppress,
			CausationID: parent, CorrelationID: cmp.Or(c.Event.CorrelationID, parent),
		},
		TraceParent: c.Event.TraceParent,
	}
	if x.OccurredAt != nil {
		draft.OccurredAt = x.OccurredAt.UTC().Truncate(time.Microsecond)
	}
	draft.Body = sha256.Sum256([]byte(strings.Join([]string{draft.Key, draft.Type, string(draft.Data)}, "\n")))
	return draft
}

// acknowledge is one try. The registry may move on between the match and the write: then
// it is made anew.
func (d *Desk) acknowledge(ctx context.Context, worker event.WorkerID, e ledger.Entry, slips []*slip) (recorded bool, plans []plan, err error) {
	ctx, cancel := context.WithTimeout(ctx, transactTimeout)
	defer cancel()
	for {
		var current int64
		err := d.fenced(ctx, func(tx pgx.Tx) (err error) {
			recorded, plans, current, err = d.acknowledgeIn(ctx, tx, worker, e, slips)
			return err
		})
		switch {
		case errors.Is(err, errMoved):
			if err := d.reach(ctx, current); err != nil {
				return false, nil, err
			}
		case errors.Is(err, errClaimLost):
			return false, nil, nil
		default:
			return recorded, plans, err
		}
	}
}

var (
	errMoved     = errors.New("the registry has moved on")
	errClaimLost = errors.New("the claim was lost")
)

func (d *Desk) acknowledgeIn(ctx context.Context, tx pgx.Tx, worker event.WorkerID, e ledger.Entry, slips []*slip) (recorded bool, plans []plan, current int64, err error) {
	found, matched := d.match(slips)
	plans, debts := make([]plan, len(slips)), 0
	for i, s := range slips {
		if err := d.heldTo(s, found[i].kind); err != nil {
			return false, nil, 0, PartError{i, err}
		}
		plans[i] = planOf(s, &found[i])
		if debts += len(plans[i].debts); debts > maxFanOut {
			return false, nil, 0, ErrTooWide
		}
	}
	if recorded, err = ledger.RecordIn(ctx, tx, worker, e); err != nil || !recorded {
		return false, nil, 0, cmp.Or(err, errClaimLost)
	}
	if len(plans) == 0 {
		return true, nil, 0, nil
	}
	current, won, err := writeFires(ctx, tx, plans, matched)
	if err == nil && current != matched {
		err = errMoved
	}
	// What had been fired before, by another attempt of the same, is owed already.
	plans = slices.DeleteFunc(plans, func(p plan) bool { return !won[p.id] })
	return err == nil, plans, current, err
}

// writeFires spends the keys of plans and writes what was won, in a transaction that goes on.
func writeFires(ctx context.Context, tx pgx.Tx, plans []plan, revision int64) (current int64, won map[event.ID]bool, err error) {
	var b pgx.Batch
	c := turn(plans)
	b.Queue(sqlSpend, c.keyArgs(revision))
	b.Queue(sqlWriteEvents, c.eventArgs())
	ledger.Owe(&b, debtsOf(plans))
	results := tx.SendBatch(ctx, &b)
	defer results.Close()
	won = map[event.ID]bool{}
	if current, err = readWon(results, won); err != nil {
		return 0, nil, err
	}
	recorded, err := readRecorded(results)
	if err != nil {
		return 0, nil, err
	}
	for _, p := range plans {
		p.written = recorded[p.id]
	}
	if err := results.Close(); err != nil {
		return 0, nil, fmt.Errorf("write events: %w", err)
	}
	return current, won, nil
}
