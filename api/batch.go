package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
)

// Bounds of a batch.
const (
	maxBatch      = 100 // events
	maxBatchBytes = 4 << 20
)

// batchAnswer is the answer to a batch. It says nothing of the batch as a whole: its
// events are fires of their own.
type batchAnswer struct {
	_       struct{}      `additionalProperties:"true"`
	Results []batchResult `json:"results" doc:"One for each event of the batch, in its order."`
}

// batchResult is what one event of a batch was answered.
type batchResult struct {
	_          struct{}     `additionalProperties:"true"`
	Status     int          `json:"status" doc:"What the event would have been answered alone." example:"201"`
	Event      *Fact        `json:"event,omitempty"`
	Deliveries []owedAtFire `json:"deliveries,omitzero"`
	Replayed   bool         `json:"replayed,omitzero" doc:"Where the event had been fired before."`
	Problem    *Problem     `json:"problem,omitempty" doc:"Why nothing was stored, where the status is no 201."`
}

// entry is one event of a batch on its way.
type entry struct {
	draft   *fire.Draft
	receipt fire.Receipt
	err     error
}

// fireBatch fires each event of a batch by itself: one that is refused hurts no other.
// Where the database takes none of them it answers as one fire would be, so that the
// caller asks again.
func (s *server) fireBatch(ctx context.Context, in *fireInput) (*fireOutput, error) {
	entries, own, err := readBatch(in)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	s.fireEntries(ctx, entries)
	if own {
		for _, e := range entries {
			e.err = sameName(e.err)
		}
	}
	answer, away := s.batchAnswer(ctx, entries)
	if away != nil {
		return nil, away
	}
	return &fireOutput{Status: http.StatusOK, Body: answer}, nil
}

// batchAnswer says what each entry came to, or that the database is away for all of them.
func (s *server) batchAnswer(ctx context.Context, entries []*entry) (answer batchAnswer, away *Problem) {
	answer.Results = make([]batchResult, len(entries))
	for i, e := range entries {
		if e.err == nil {
			answer.Results[i] = shown(ctx, e.receipt)
			continue
		}
		p := s.explainEntry(ctx, i, e.err)
		if p.Status == http.StatusServiceUnavailable {
			away = p
		}
		answer.Results[i] = batchResult{Status: p.Status, Problem: p}
	}
	if away != nil && slices.ContainsFunc(answer.Results, func(r batchResult) bool { return r.Status != away.Status }) {
		away = nil
	}
	return answer, away
}

// readBatch reads the events of a batch. Those that cannot be read have their error. It
// says whether the events are their own keys.
func readBatch(in *fireInput) (entries []*entry, own bool, err error) {
	key, given, err := in.key()
	if err != nil {
		return nil, false, err
	}
	if err := checkCloudEventsType(in.header, mediaBatch); err != nil {
		return nil, false, err
	}
	elements, err := splitArray(slices.Clone(in.RawBody), maxBatch, "CloudEvents")
	if err != nil {
		return nil, false, err
	}
	entries = make([]*entry, len(elements))
	for i, element := range elements {
		entries[i] = new(entry)
		entries[i].draft, entries[i].err = readElement(element, key)
	}
	return entries, !given, nil
}

// readElement reads one event of a batch, which may have a key of its own.
func readElement(element []byte, batchKey string) (*fire.Draft, error) {
	if !bytes.HasPrefix(element, []byte("{")) {
		return nil, event.Flaws{{Message: "must be a CloudEvent, which is an object"}}
	}
	o, err := readStructured(element)
	if err != nil {
		return nil, err
	}
	if batchKey != "" {
		return o.draft(o.keyUnder(batchKey))
	}
	return o.draft(o.key())
}

// fireEntries fires what could be read, all at once, so that it is written together. Of
// two with one key the first goes first.
func (s *server) fireEntries(ctx context.Context, entries []*entry) {
	var order []string
	byKey := map[string][]*entry{}
	for _, e := range entries {
		if e.err != nil {
			continue
		}
		if byKey[e.draft.Key] == nil {
			order = append(order, e.draft.Key)
		}
		byKey[e.draft.Key] = append(byKey[e.draft.Key], e)
	}
	var under sync.WaitGroup
	for _, key := range order {
		under.Go(func() {
			for _, e := range byKey[key] {
				e.receipt, e.err = s.fire(ctx, e.draft)
			}
		})
	}
	under.Wait()
}

// explainEntry is explain for one event of a batch: its pointers begin at the batch.
func (s *server) explainEntry(ctx context.Context, i int, err error) *Problem {
	p := asProblem(s.explain(ctx, err)).below(fmt.Sprintf("/%d", i))
	p.RequestID = requestID(ctx)
	return p
}

func shown(ctx context.Context, r fire.Receipt) batchResult {
	body := showReceipt(ctx, r)
	return batchResult{Status: http.StatusCreated, Event: &body.Event, Deliveries: body.Deliveries, Replayed: r.Replayed}
}
