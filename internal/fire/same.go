package fire

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"

	"github.com/eventsvc/eventsvc/internal/event"
)

// sameFact reports whether a draft tells the event that its key was spent on. Equal
// requests are known by their hash; otherwise the two are compared as JSON values, so
// that a client which writes its keys in another order is not refused.
func sameFact(d *Draft, body [32]byte, e *event.Event) bool {
	if d.Body == body && d.Body != ([32]byte{}) {
		return true
	}
	return d.Type == e.Type && sameFacts(&d.Facts, &e.Facts) && sameJSON(d.Data, e.Data)
}

func sameFacts(a, b *event.Facts) bool {
	return a.Tenant == b.Tenant && a.Subject == b.Subject && a.Source == b.Source &&
		sameChain(a, b) && a.CausationID == b.CausationID &&
		a.OccurredAt.Equal(b.OccurredAt) && maps.Equal(a.Metadata, b.Metadata) &&
		reflect.DeepEqual(a.Actor, b.Actor) && reflect.DeepEqual(a.Suppress, b.Suppress)
}

// sameChain reports whether a draft's chain is the stored one's. A draft that names its
// cause and no chain has inherited one when it was stored.
func sameChain(draft, stored *event.Facts) bool {
	return draft.CorrelationID == stored.CorrelationID || draft.CorrelationID == "" && draft.CausationID != ""
}

// sameJSON compares numbers by their text: it is exact, and cannot be made to unfold
// an exponent.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := decode(a)
	y, errY := decode(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func decode(data []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}
