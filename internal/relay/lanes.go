package relay

import "github.com/eventsvc/eventsvc/internal/event"

// Lanes say which lanes a relay serves, and with how many attempts in flight each.
type Lanes struct {
	// Served are the lanes that are claimed from. Nil is every lane.
	Served []string
	// Workers bounds the attempts in flight of a lane. One that is not named may use
	// every slot there is.
	Workers map[string]int
}

// serves reports whether a target's deliveries are this relay's to settle. What is left
// of a target that is gone belongs to whoever serves the default lane: no named lane
// takes it.
func (l Lanes) serves(t *event.Target) bool {
	if l.Served == nil {
		return true
	}
	name := t.Receiver.Lane
	if t.Deleted {
		name = event.DefaultLane
	}
	for _, served := range l.Served {
		if served == name {
			return true
		}
	}
	return false
}

func (l Lanes) workers(name string) int {
	if n, ok := l.Workers[name]; ok {
		return n
	}
	return unlimited
}
