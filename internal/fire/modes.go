package fire

import (
	"slices"

	"github.com/eventsvc/eventsvc/internal/event"
)

// parted are the targets that an event matches, by what is done about them.
type parted struct {
	owed  []*event.Target // a delivery each
	after []*event.Target // told once it is committed
}

func partModes(targets []*event.Target) (p parted) {
	if !slices.ContainsFunc(targets, func(t *event.Target) bool { return t.Receiver.Mode != event.Durable }) {
		return parted{owed: targets}
	}
	for _, t := range targets {
		switch t.Receiver.Mode {
		case event.OnCommit:
			p.after = append(p.after, t)
		case event.Inline: // asked before or meanwhile: see vote.go and alone.go
		default:
			p.owed = append(p.owed, t)
		}
	}
	return p
}

// tellAfter has the on_commit receivers of what was committed told of it.
func (d *Desk) tellAfter(plans []plan) {
	for i := range plans {
		if p := &plans[i]; len(p.after) > 0 {
			e := p.fact()
			d.after(&e, p.after)
		}
	}
}
