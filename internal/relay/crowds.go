package relay

import (
	"sync"

	"github.com/eventsvc/eventsvc/internal/event"
)

// crowds are the attempts under way at each target, where no board keeps them.
type crowds struct {
	mu sync.Mutex
	at map[event.TargetID]int
}

// enter finds room for one more attempt at a target, within its bound for a process. A
// target that is not known here has none.
func (c *crowds) enter(to *event.Target, id event.TargetID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to != nil && c.at[id] >= to.Receiver.MaxConcurrency {
		return false
	}
	if c.at == nil {
		c.at = map[event.TargetID]int{}
	}
	c.at[id]++
	return true
}

func (c *crowds) leave(id event.TargetID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[id]--; c.at[id] == 0 {
		delete(c.at, id)
	}
}
