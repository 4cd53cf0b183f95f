package fire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// Producer is whose key a key is: the scope within which it names one fire. Zero is
// the operator.
type Producer int32

// Draft is an event as a producer tells it, before it is a fact.
type Draft struct {
	Producer Producer
	Key      string   // the idempotency key
	Body     [32]byte // SHA-256 of the request, the quick way to know a repeat
	Type     string
	Data     []byte // JSON, kept byte for byte
	event.Facts
	TraceParent string
	// Bound says that the producer is bound to the draft's tenant, and can know of no
	// other's events.
	Bound bool

	id event.ID // of the event, where that was chosen before
}

// occasion is the draft as matching sees it.
func (d *Draft) occasion() *registry.Occasion {
	return &registry.Occasion{Type: d.Type, Data: d.Data, Facts: d.Facts}
}

// Bounds of a draft.
const (
	maxKey      = 255
	maxText     = 255
	maxMetadata = 50
	maxDepth    = 256
)

// Check lists everything that is wrong with the draft but the size of its data, which
// callers bound before they read it.
func (d *Draft) Check() event.Flaws {
	var flaws event.Flaws
	if err := event.CheckType(d.Type); err != nil {
		flaws.Add("/type", err.Error())
	}
	if strings.HasPrefix(d.Type, event.ReservedTypes) {
		flaws.Add("/type", "must not begin with "+event.ReservedTypes+": those types are the service's own")
	}
	switch {
	case len(d.Data) == 0:
		flaws.Add("/data", "is required: any JSON value")
	case nesting(d.Data) > maxDepth:
		flaws.Add("/data", fmt.Sprintf("is nested more than %d levels deep", maxDepth))
	}
	d.checkFacts(&flaws)
	return flaws
}

func (d *Draft) checkFacts(flaws *event.Flaws) {
	text(flaws, "/tenant", d.Tenant)
	text(flaws, "/subject", d.Subject)
	text(flaws, "/source", d.Source)
	text(flaws, "/correlation_id", d.CorrelationID)
	text(flaws, "/causation_id", d.CausationID)
	if d.Actor != nil {
		if d.Actor.Key == "" {
			flaws.Add("/actor/key", "is required")
		}
		text(flaws, "/actor/key", d.Actor.Key)
		text(flaws, "/actor/label", d.Actor.Label)
	}
	if d.Suppress != nil {
		if d.Suppress.Reason == "" {
			flaws.Add("/suppress/reason", "is required: it is what the event's readers are told")
		}
		text(flaws, "/suppress/reason", d.Suppress.Reason)
	}
	if len(d.Metadata) > maxMetadata {
		flaws.Add("/metadata", fmt.Sprintf("holds %d entries; at most %d are allowed", len(d.Metadata), maxMetadata))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Metadata)) {
		text(flaws, "/metadata/"+event.PointerToken(name), name)
		text(flaws, "/metadata/"+event.PointerToken(name), d.Metadata[name])
	}
}

// text refuses what cannot be stored, indexed or sent in a header and shown in a log.
func text(flaws *event.Flaws, pointer, s string) {
	if len(s) > maxText {
		flaws.Add(pointer, fmt.Sprintf("is %d bytes long; at most %d are allowed", len(s), maxText))
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		flaws.Add(pointer, "must not hold control characters")
	}
}

// CheckKey says what is wrong with an idempotency key, or nil: 1 to 255 visible ASCII
// characters.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("must not be empty")
	case len(key) > maxKey:
		return fmt.Errorf("is %d characters long; at most %d are allowed", len(key), maxKey)
	case strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' }):
		return fmt.Errorf("may hold only visible ASCII characters")
	}
	return nil
}

// nesting is the depth of arrays and objects in a valid JSON text.
func nesting(data []byte) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
