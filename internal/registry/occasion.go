package registry

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Occasion is an event as matching sees it: before it is recorded, or as it was. What it
// is asked by filters is read once, and each filter judges it once, so it is not safe for
// concurrent use.
type Occasion struct {
	Type  string
	Data  []byte
	Facts event.Facts

	known  map[string]any
	judged map[*Filter]bool
}

// filterFields are the fields of event in a filter: what the producer said, so that a
// replay matches as the fire did. What was not said is not there.
var filterFields = []string{"type", "data", "tenant", "subject", "source", "occurred_at", "actor", "causation_id", "metadata"}

// fields are the event's for filters.
func (o *Occasion) fields() map[string]any {
	if o.known != nil {
		return o.known
	}
	o.known = map[string]any{"type": o.Type, "data": value(o.Data)}
	for name, text := range map[string]string{
		"tenant": o.Facts.Tenant, "subject": o.Facts.Subject, "source": o.Facts.Source, "causation_id": o.Facts.CausationID,
	} {
		if text != "" {
			o.known[name] = text
		}
	}
	if !o.Facts.OccurredAt.IsZero() {
		o.known["occurred_at"] = o.Facts.OccurredAt
	}
	if a := o.Facts.Actor; a != nil {
		actor := map[string]any{"key": a.Key}
		if a.Label != "" {
			actor["label"] = a.Label
		}
		o.known["actor"] = actor
	}
	if o.Facts.Metadata != nil {
		o.known["metadata"] = o.Facts.Metadata
	}
	return o.known
}

// value is data as CEL knows values: whole numbers that fit are integers, all others
// floating point.
func value(data []byte) any {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil // stored data that is no JSON: deliveries of it are dead by themselves
	}
	return numbered(v)
}

func numbered(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case map[string]any:
		for name := range v {
			v[name] = numbered(v[name])
		}
	case []any:
		for i := range v {
			v[i] = numbered(v[i])
		}
	}
	return v
}

func number(text string) any {
	if !strings.ContainsAny(text, ".eE") {
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			return whole
		}
		if whole, err := strconv.ParseUint(text, 10, 64); err == nil {
			return whole
		}
	}
	float, _ := strconv.ParseFloat(text, 64) // infinite where it is too large
	return float
}

// meets is whether the filter lets the event through, or the error of it that was just met.
func (o *Occasion) meets(f *Filter) (met bool, failed error) {
	if met, known := o.judged[f]; known {
		return met, nil
	}
	met, failed = f.Judge(o)
	if o.judged == nil {
		o.judged = map[*Filter]bool{}
	}
	o.judged[f] = met
	return met, failed
}
