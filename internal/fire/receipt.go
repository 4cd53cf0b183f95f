package fire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// Receipt is the answer to a fire: the fact and all that is owed for it.
type Receipt struct {
	Event event.Event
	Owed  []Owed // empty where nobody listens
	// Replayed says that the key had been spent before, on the same event.
	Replayed bool
}

// Owed is one delivery as it was when its event was fired.
type Owed struct {
	ID       event.ID
	Receiver string
	Target   string
	Due      time.Duration // after the event's recorded_at
	// Eager says that its receiver is. It is not kept with the key: a replay has nothing
	// to wait for.
	Eager bool
}

// Errors of a fire. Nothing was written.
var (
	ErrKeyReused = errors.New("the idempotency key was used for another event")
	ErrKeyInUse  = errors.New("a fire with the same idempotency key is still under way")
	// ErrBusy says that the fire was withdrawn before it was written, as the database
	// did not keep up.
	ErrBusy = errors.New("the database does not keep up")
	// ErrUnknownType says that the event's type is not declared, where types must be.
	ErrUnknownType = errors.New("the event type is not declared")
	// ErrTooWide says that the event matches more targets than one fire may owe.
	ErrTooWide = fmt.Errorf("the event would be owed to more than %d targets", maxFanOut)
)

// maxFanOut bounds the deliveries of one event.
const maxFanOut = 50_000

// owe draws up what an event is owed to.
func owe(id event.ID, targets []*event.Target, now time.Time) ([]ledger.Debt, []Owed) {
	debts := make([]ledger.Debt, len(targets))
	owed := make([]Owed, len(targets))
	for i, t := range targets {
		debts[i] = ledger.Debt{ID: event.NewID(now), EventID: id, TargetID: t.ID, MaxAttempts: t.Receiver.MaxAttempts, Format: t.Receiver.Format, Due: t.Receiver.Due}
		owed[i] = Owed{ID: debts[i].ID, Receiver: t.Receiver.Key, Target: t.Name, Due: t.Receiver.Due, Eager: t.Receiver.Eager}
	}
	return debts, owed
}

// owedLine is how an [Owed] is kept with its key.
type owedLine struct {
	ID       string        `json:"i"`
	Receiver string        `json:"r"`
	Target   string        `json:"t,omitempty"`
	Due      time.Duration `json:"d,omitempty"`
}

func encodeOwed(owed []Owed) []byte {
	if len(owed) == 0 {
		return []byte("[]")
	}
	lines := make([]owedLine, len(owed))
	for i, o := range owed {
		lines[i] = owedLine{o.ID.Text(event.DeliveryPrefix), o.Receiver, o.Target, o.Due}
	}
	encoded, err := json.Marshal(lines)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return encoded
}

func decodeOwed(encoded []byte) ([]Owed, error) {
	var lines []owedLine
	if err := json.Unmarshal(encoded, &lines); err != nil {
		return nil, fmt.Errorf("read what a key was answered: %w", err)
	}
	owed := make([]Owed, len(lines))
	for i, line := range lines {
		id, err := event.ParseID(event.DeliveryPrefix, line.ID)
		if err != nil {
			return nil, fmt.Errorf("read what a key was answered: %w", err)
		}
		owed[i] = Owed{ID: id, Receiver: line.Receiver, Target: line.Target, Due: line.Due}
	}
	return owed, nil
}
