package relay

import "sync"

// knock wakes everybody who listens, at once.
type knock struct {
	mu   sync.Mutex
	next chan struct{}
}

func newKnock() *knock { return &knock{next: make(chan struct{})} }

// listen is closed by the next knock.
func (k *knock) listen() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.next
}

func (k *knock) knock() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.next)
	k.next = make(chan struct{})
}
