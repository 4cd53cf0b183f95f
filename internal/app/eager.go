package app

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/relay"
)

// hireEager gives the house what tries at once what is fired in it. It claims under a
// number of its own, so that trails tell its attempts from the relay's.
func (h *house) hireEager(ctx context.Context, owed *ledger.Ledger, name string) error {
	worker, err := owed.Enroll(ctx, "eager:"+name)
	if err != nil {
		return err
	}
	h.eager = relay.NewEager(h.runner, worker, h.ledger, h.noteEager, h.wake)
	if err := h.tel.figures.Register(eagerFigures{h.eager.Counts()}); err != nil {
		return fmt.Errorf("register the figures: %w", err)
	}
	return nil
}

// hasten is offered what was just fired to eager receivers.
func (h *house) hasten(debts []ledger.Debt) (left []ledger.Debt) {
	if h.eager == nil {
		return debts
	}
	return h.eager.Offer(debts)
}

// noteEager passes on what an eager attempt came to: to the relay of this process, which
// then knows when to look again, or else to who reports successes.
func (h *house) noteEager(target event.TargetID, result *event.Result) {
	switch {
	case h.relay != nil:
		h.relay.Note(target, result)
	case result.Recorded && result.Settlement.Status == event.Succeeded:
		h.remote.Note(target)
	}
}

// eagerFigures are what became of the deliveries of eager receivers in this process: add
// them up over processes.
type eagerFigures struct{ counts *relay.EagerCounts }

var eagerFigure = prometheus.NewDesc("eventsvc_eager_total", "Deliveries of eager receivers that were fired here: tried at once; missed, as a relay was first or they are paused; left to the relays for want of room.", []string{"outcome"}, nil)

// Describe implements prometheus.Collector.
func (f eagerFigures) Describe(ch chan<- *prometheus.Desc) { ch <- eagerFigure }

// Collect implements prometheus.Collector.
func (f eagerFigures) Collect(ch chan<- prometheus.Metric) {
	for outcome, n := range map[string]int64{"tried": f.counts.Tried.Load(), "missed": f.counts.Missed.Load(), "left": f.counts.Left.Load()} {
		ch <- prometheus.MustNewConstMetric(eagerFigure, prometheus.CounterValue, float64(n), outcome)
	}
}
