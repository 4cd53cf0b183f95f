package event

import (
	"errors"
	"time"
)

// Pause is a lane, or a target, that one process leaves alone because it was asked to by
// an uncounted deferral. It is that process's own, by its own clock.
type Pause struct {
	Lane   string
	Target TargetID // 0: the whole lane
	Until  time.Time
}

// Why a delivery is not tried although somebody wants it to be.
var (
	// ErrPaused says that the receiver, or its lane, gets no requests just now.
	ErrPaused = errors.New("the receiver is paused")
	// ErrPulled says that nobody here can try it: workers elsewhere claim it.
	ErrPulled = errors.New("the receiver's work is claimed by workers elsewhere")
	// ErrStopping says that the process makes no more attempts.
	ErrStopping = errors.New("the process is stopping")
)
