package fire

import (
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// announce tells of what plans that were just committed owe: what eager receivers are owed
// is offered first, and relays are woken for the rest.
func (d *Desk) announce(plans []plan) {
	var eager []ledger.Debt
	var others []event.TargetID
	for _, p := range plans {
		for i, debt := range p.debts {
			if p.owed[i].Eager {
				eager = append(eager, debt)
			} else {
				others = append(others, debt.TargetID)
			}
		}
	}
	if len(eager) > 0 {
		for _, debt := range d.eager(eager) {
			others = append(others, debt.TargetID)
		}
	}
	d.committed(distinct(others))
}
