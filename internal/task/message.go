package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Message is the proof of a claim that was handed over.
type Message struct {
	event.Fence
	By event.WorkerID // who handed it over
	// Target is whom it is owed to, as far as is known: beside the proof, for workers to
	// bound what they take.
	Target event.TargetID
}

// wire is a message's JSON. A name is never given another meaning.
type wire struct {
	DeliveryID string `json:"delivery_id"`
	ClaimedBy  int32  `json:"claimed_by"`
	ClaimedAt  string `json:"claimed_at"`
}

// fenceTime has the tables' whole precision, always.
const fenceTime = "2006-01-02T15:04:05.000000Z"

func (m *Message) encode() []byte {
	text, err := json.Marshal(wire{m.Delivery.Text(event.DeliveryPrefix), int32(m.By), m.ClaimedAt.UTC().Format(fenceTime)})
	if err != nil {
		panic(err) // a number and two strings
	}
	return text
}

// name tells one hand-over from every other: a message that is sent again is the same,
// a claim made anew is not.
func (m *Message) name() string {
	return fmt.Sprintf("%s/%d/%d", m.Delivery.Text(event.DeliveryPrefix), m.By, m.ClaimedAt.UnixMicro())
}

var errShape = errors.New("the message is no proof of a claim")

// decode reads a message, strictly: what is not of this shape is nobody's to guess at.
func decode(text []byte) (m Message, err error) {
	var w wire
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&w); err != nil {
		return m, errShape
	}
	if _, err := strict.Token(); err != io.EOF || w.ClaimedBy <= 0 {
		return m, errShape
	}
	id, err1 := event.ParseID(event.DeliveryPrefix, w.DeliveryID)
	at, err2 := time.Parse(fenceTime, w.ClaimedAt)
	if err1 != nil || err2 != nil {
		return m, errShape
	}
	return Message{Fence: event.Fence{Delivery: id, ClaimedAt: at}, By: event.WorkerID(w.ClaimedBy)}, nil
}

// token is a lane's name as one token of a subject, or a consumer's name: a dot would
// make it several.
func token(lane string) string { return strings.ReplaceAll(lane, ".", "%2E") }

const subjects = "eventsvc.task."

func subject(lane string) string { return subjects + token(lane) }
