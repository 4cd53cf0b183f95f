package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Entry is one settlement to record under a claim. Number and the rest of the
// attempt's facts are passed as they were told to the receiver.
type Entry struct {
	event.Fence
	Settlement event.Settlement
	Attempt    event.Attempt
	// Watched is the target, where it is one of a fan-out receiver: its health is kept.
	Watched event.TargetID
}

// Health is a turn in how a target fares.
type Health struct {
	Target event.TargetID
	// Dead is how many deliveries died since one last succeeded, and Died how many of them
	// just now; both are zero where the target has recovered.
	Dead, Died int
	// Incident counts how often it went from well to failing.
	Incident int
}

// Began reports whether it was well before.
func (h Health) Began() bool { return h.Dead > 0 && h.Dead == h.Died }

// Record writes settlements in one statement and says of each whether it was
// recorded: false means that its claim had been lost, and nothing of it was written.
// A terminal settlement moves the delivery to the past, any other puts it back.
// It also answers how targets that are watched fare, where that has turned.
func (l *Ledger) Record(ctx context.Context, worker event.WorkerID, entries []Entry) ([]bool, []Health, error) {
	recorded, turns, err := l.record(ctx, worker, entries)
	if pg.BadData(err) {
		// What is kept for people must never keep a verdict from being recorded (P10): it
		// is left out rather than made again with every redelivery.
		recorded, turns, err = l.record(ctx, worker, bare(entries))
	}
	if pg.BadData(err) && len(entries) > 1 {
		return l.recordApart(ctx, worker, entries)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("record %d verdicts: %w", len(entries), err)
	}
	return recorded, turns, nil
}

// RecordIn writes one settlement in a transaction of the caller's, who commits it together
// with what was done for it, or neither. False means that the claim had been lost: nothing
// was written, and the caller must roll back. The health of its target is not kept.
func RecordIn(ctx context.Context, tx pgx.Tx, worker event.WorkerID, e Entry) (recorded bool, err error) {
	e.Watched = 0
	done, _, err := recordTo(ctx, tx, worker, []Entry{e})
	if err != nil {
		return false, fmt.Errorf("record a verdict: %w", err)
	}
	return done[0], nil
}

// recordApart records halves, so that one row that cannot be recorded costs no other its
// verdict.
func (l *Ledger) recordApart(ctx context.Context, worker event.WorkerID, entries []Entry) (recorded []bool, turns []Health, err error) {
	half := len(entries) / 2
	for _, part := range [][]Entry{entries[:half], entries[half:]} {
		some, turned, err := l.Record(ctx, worker, part)
		switch {
		case pg.BadData(err) && len(part) == 1:
			some = []bool{false}
		case err != nil:
			return nil, nil, err
		}
		recorded, turns = append(recorded, some...), append(turns, turned...)
	}
	return recorded, turns, nil
}

// bare is the entries without what receivers had a hand in.
func bare(entries []Entry) []Entry {
	stripped := slices.Clone(entries)
	for i := range stripped {
		stripped[i].Attempt.Evidence = nil
		stripped[i].Attempt.Error = "the details of this attempt could not be stored"
	}
	return stripped
}

func (l *Ledger) record(ctx context.Context, worker event.WorkerID, entries []Entry) ([]bool, []Health, error) {
	return recordTo(ctx, l.pool, worker, entries)
}

func recordTo(ctx context.Context, to sender, worker event.WorkerID, entries []Entry) ([]bool, []Health, error) {
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	// Rows are locked in the order of their ids, so that no two batches deadlock.
	slices.SortFunc(order, func(x, y int) int { return entries[x].Delivery.Compare(entries[y].Delivery) })
	position := make(map[event.ID]int, len(entries))
	c := newColumns(len(entries))
	for _, i := range order {
		position[entries[i].Delivery] = i
		c.add(&entries[i])
	}
	recorded := make([]bool, len(entries))
	var turns []Health
	var id pgtype.UUID
	var target, dead, died, incident pgtype.Int4
	err := pinnedIn(ctx, to, sqlRecord, c.args(worker), func(rows pgx.Rows) error {
		if err := rows.Scan(&id, &target, &dead, &died, &incident); err != nil {
			return err
		}
		if id.Valid {
			recorded[position[id.Bytes]] = true
			return nil
		}
		turns = append(turns, Health{event.TargetID(target.Int32), int(dead.Int32), int(died.Int32), int(incident.Int32)})
		return nil
	})
	return recorded, turns, err
}

// columns are a batch of entries turned on their side: one array a column.
type columns struct {
	ids                                       [][16]byte
	evidence                                  [][]byte
	claimed                                   []time.Time
	untils                                    []*time.Time
	waits, ages                               []time.Duration
	spent, numbers, http                      []int16
	durations, watched                        []int32
	statuses, outcomes, classes, errorsColumn []string
}

func newColumns(n int) *columns {
	return &columns{
		ids: make([][16]byte, 0, n), evidence: make([][]byte, 0, n), claimed: make([]time.Time, 0, n), ages: make([]time.Duration, 0, n),
		untils: make([]*time.Time, 0, n), waits: make([]time.Duration, 0, n), spent: make([]int16, 0, n), numbers: make([]int16, 0, n),
		http: make([]int16, 0, n), durations: make([]int32, 0, n), statuses: make([]string, 0, n), outcomes: make([]string, 0, n),
		classes: make([]string, 0, n), errorsColumn: make([]string, 0, n),
	}
}

func (c *columns) add(e *Entry) {
	s, a := &e.Settlement, &e.Attempt
	var until *time.Time
	if !s.Until.IsZero() {
		until = &s.Until
	}
	c.ids = append(c.ids, e.Delivery)
	if e.Watched != 0 {
		c.watched = append(c.watched, int32(e.Watched))
	}
	c.claimed = append(c.claimed, e.ClaimedAt)
	c.statuses = append(c.statuses, string(s.Status))
	c.spent = append(c.spent, int16(s.Spent))
	c.waits = append(c.waits, s.Wait)
	c.untils = append(c.untils, until)
	c.numbers = append(c.numbers, int16(a.Number))
	c.outcomes = append(c.outcomes, string(a.Outcome))
	// How long ago, by our own clock: the tables hold the database's times.
	c.ages = append(c.ages, max(time.Since(a.StartedAt), 0))
	c.durations = append(c.durations, int32(a.Duration.Milliseconds()))
	c.http = append(c.http, int16(a.HTTPStatus))
	c.classes = append(c.classes, string(a.Class))
	c.errorsColumn = append(c.errorsColumn, safeText(a.Error))
	c.evidence = append(c.evidence, encodeEvidence(a.Evidence))
}

func (c *columns) args(worker event.WorkerID) pg.Args {
	return pg.Args{
		"ids": c.ids, "claimed": c.claimed, "statuses": c.statuses, "spent": c.spent, "waits": c.waits, "untils": c.untils,
		"numbers": c.numbers, "outcomes": c.outcomes, "ages": c.ages, "durations": c.durations, "http": c.http,
		"classes": c.classes, "errors": c.errorsColumn, "evidence": c.evidence, "worker": int32(worker), "watched": c.watched,
	}
}

func encodeEvidence(e *event.Evidence) []byte {
	if e == nil {
		return nil
	}
	encoded, err := json.Marshal(e)
	if err != nil {
		// Evidence is strings and numbers; were it ever more, the verdict must still be
		// recorded (P10).
		return nil
	}
	return encoded
}
