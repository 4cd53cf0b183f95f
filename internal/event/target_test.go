package event

import "testing"

// T114, T126: tenants fail closed, and the service's own events are nobody's but the
// operator's.
func TestATargetWantsWhatBothItAndItsReceiverWant(t *testing.T) {
	fan := &Receiver{Patterns: []Pattern{"order.*", "eventsvc.*"}, FanOut: true}
	plain := &Receiver{Patterns: []Pattern{"*"}}
	for name, c := range map[string]struct {
		target       Target
		kind, tenant string
		wants        bool
	}{
		"all of its receiver's":      {Target{Name: "a", Receiver: fan}, "order.paid", "", true},
		"another type":               {Target{Name: "a", Receiver: fan}, "invoice.paid", "", false},
		"one of its own types":       {Target{Name: "a", Receiver: fan, Patterns: []Pattern{"order.paid"}}, "order.paid", "", true},
		"not one of its own":         {Target{Name: "a", Receiver: fan, Patterns: []Pattern{"order.paid"}}, "order.placed", "", false},
		"no types at all":            {Target{Name: "a", Receiver: fan, Patterns: []Pattern{}}, "order.paid", "", false},
		"its tenant's":               {Target{Name: "a", Receiver: fan, Tenant: "acme"}, "order.paid", "acme", true},
		"another tenant's":           {Target{Name: "a", Receiver: fan, Tenant: "acme"}, "order.paid", "zeta", false},
		"of no tenant":               {Target{Name: "a", Receiver: fan, Tenant: "acme"}, "order.paid", "", false},
		"a tenant's, for one of all": {Target{Name: "a", Receiver: fan}, "order.paid", "zeta", true},
		"the service's own":          {Target{Name: "a", Receiver: fan}, "eventsvc.target.failing", "", false},
		"the service's own, plain":   {Target{Receiver: plain}, "eventsvc.target.failing", "", true},
		"disabled":                   {Target{Name: "a", Receiver: fan, Disabled: true}, "order.paid", "", false},
		"paused":                     {Target{Name: "a", Receiver: fan, Paused: true}, "order.paid", "", true},
		"gone":                       {Target{Name: "a", Receiver: fan, Deleted: true}, "order.paid", "", false},
		"the address of before":      {Target{Receiver: fan}, "order.paid", "", false},
		"a target of before":         {Target{Name: "a", Receiver: plain}, "order.paid", "", false},
	} {
		if got := c.target.Wants(c.kind, c.tenant); got != c.wants {
			t.Errorf("%s: %v", name, got)
		}
	}
}
