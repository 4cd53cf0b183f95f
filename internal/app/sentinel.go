package app

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/registry"
	"github.com/jackc/pgx/v5"
)

// sentinel tells how targets of fan-out receivers fare, by events of the service's own,
// and switches off those whose deliveries keep dying. The ledger's counters decide who
// was first; the key of each event is its incident, so that it is told once.
type sentinel struct {
	house *house
	after int // deaths in a row that switch a target off; 0: never
	turns chan []ledger.Health
}

// serviceProducer is whose keys the service's own events are fired under.
const serviceProducer fire.Producer = -1

const maxTurns = 1000

func newSentinel(h *house, after int) *sentinel {
	return &sentinel{house: h, after: after, turns: make(chan []ledger.Health, maxTurns)}
}

// turned takes what the recorder found. It does not block: where there is more than can
// be kept, the counters still have it, and the next death tells.
func (s *sentinel) turned(turns []ledger.Health) {
	select {
	case s.turns <- turns:
	default:
	}
}

// run tells until the context ends, and then what is left.
func (s *sentinel) run(ctx context.Context) {
	for {
		select {
		case turns := <-s.turns:
			s.tell(turns)
		case <-ctx.Done():
			for {
				select {
				case turns := <-s.turns:
					s.tell(turns)
				default:
					return
				}
			}
		}
	}
}

const sentinelTimeout = 10 * time.Second

func (s *sentinel) tell(turns []ledger.Health) {
	ctx, cancel := context.WithTimeout(context.Background(), sentinelTimeout)
	defer cancel()
	for _, turn := range turns {
		t := s.house.book.Target(turn.Target)
		if t == nil {
			continue
		}
		if turn.Dead == 0 {
			s.fire(ctx, t, turn, "recovered")
			continue
		}
		if turn.Began() {
			s.fire(ctx, t, turn, "failing")
		}
		if s.after == 0 || turn.Dead < s.after {
			continue
		}
		done, err := s.house.registry.Before(noteOwn).Disable(ctx, turn.Target)
		if err != nil {
			s.house.Log.WarnContext(ctx, "a failing target could not be switched off; its next dead delivery will try again", "receiver", t.Receiver.Key, "target", t.Name, "err", err)
			continue
		}
		if done {
			s.house.Log.WarnContext(ctx, fmt.Sprintf("target %s of receiver %s is switched off: %d deliveries died in a row; what it is owed waits until it is resumed", t.Name, t.Receiver.Key, turn.Dead))
			s.fire(ctx, t, turn, "disabled")
		}
	}
}

// noteOwn has the audit tell of what the service changes by itself.
func noteOwn(ctx context.Context, tx pgx.Tx, changes []registry.Change) error {
	noted := make([]access.Change, len(changes))
	for i, c := range changes {
		noted[i] = access.Change{Action: c.Action, Object: c.Object, Before: c.Before, After: c.After}
	}
	return access.Note(ctx, tx, access.Operator("eventsvc itself"), noted...)
}

func (s *sentinel) fire(ctx context.Context, t *event.Target, turn ledger.Health, what string) {
	data, err := json.Marshal(map[string]any{"receiver": t.Receiver.Key, "target": t.Name, "dead_in_a_row": turn.Dead, "disabled_after": s.after})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	key := fmt.Sprintf("target:%d:%d:%s", turn.Target, turn.Incident, what)
	d := &fire.Draft{Producer: serviceProducer, Key: key, Body: sha256.Sum256([]byte(key)), Type: event.ReservedTypes + "target." + what, Data: data,
		Facts: event.Facts{Source: "eventsvc", Subject: t.Receiver.Key + "/" + t.Name}}
	if _, err := s.house.desk.Fire(ctx, d); err != nil {
		s.house.Log.WarnContext(ctx, "an event of the service's own could not be fired", "type", d.Type, "receiver", t.Receiver.Key, "target", t.Name, "err", err)
	}
}
