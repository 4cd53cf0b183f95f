package event

import "time"

// MaxData bounds the data of one event, in bytes as posted.
const MaxData = 256 << 10

// Event is a fact, told once and never changed.
type Event struct {
	ID   ID
	Type string
	// Data is the JSON value exactly as posted. It is never decoded and encoded
	// again, so numbers, key order and white space reach the receivers unchanged.
	Data []byte
	Facts
	// RecordedAt is the database's time of the insert. Windows are measured from it.
	RecordedAt time.Time
	// TraceParent is the W3C trace context of the event's creation, or "". Every
	// attempt's span links to it.
	TraceParent string
}

// Facts are who, when and why: what a producer says about an event beside its type
// and data. All are optional.
type Facts struct {
	Tenant        string            `json:"tenant,omitempty"`
	Subject       string            `json:"subject,omitempty"`
	Source        string            `json:"source,omitempty"`
	OccurredAt    time.Time         `json:"occurred_at,omitzero"` // the domain's time
	Actor         *Actor            `json:"actor,omitempty"`
	CorrelationID string            `json:"correlation_id,omitempty"`
	CausationID   string            `json:"causation_id,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	Suppress      *Suppression      `json:"suppress,omitempty"`
}

// Actor is who made the change: a stable key and the name shown at the time.
type Actor struct {
	Key   string `json:"key"`
	Label string `json:"label,omitempty"`
}

// Suppression says why an event is stored but owed to nobody.
type Suppression struct {
	Reason string `json:"reason"`
}

// Occurred is the domain's time where the producer gave one, else the database's.
func (e *Event) Occurred() time.Time {
	if e.OccurredAt.IsZero() {
		return e.RecordedAt
	}
	return e.OccurredAt
}
