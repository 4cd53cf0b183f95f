package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventsvc/eventsvc/internal/ledger"
)

// figures are the status as metrics. Every process shows the same ones, since they are
// the database's: take the maximum over processes, not the sum.
type figures struct {
	watch *ledger.Watch
}

// How old the figures may be, how long a scrape waits for new ones, and how many
// receivers have series of their own: the worst.
const (
	figuresAge     = 15 * time.Second
	figuresTimeout = 5 * time.Second
	maxSeries      = 200
)

var (
	deliveriesFigure = prometheus.NewDesc("eventsvc_deliveries", "Deliveries by state: owed is due, claimed or not; scheduled is not due yet; dead is no part of owed.", []string{"state"}, nil)
	oldestFigure     = prometheus.NewDesc("eventsvc_oldest_owed_seconds", "Since the oldest delivery that is owed arrived, or was due.", nil, nil)
	lapsedFigure     = prometheus.NewDesc("eventsvc_lapsed_leases", "Deliveries held by workers that are lost.", nil, nil)
	laneFigure       = prometheus.NewDesc("eventsvc_lane_deliveries", "Deliveries by lane and state.", []string{"lane", "state"}, nil)
	laneOldestFigure = prometheus.NewDesc("eventsvc_lane_oldest_owed_seconds", "Of the oldest in each lane.", []string{"lane"}, nil)
	relaysFigure     = prometheus.NewDesc("eventsvc_lane_relays", "Live relays that serve a lane.", []string{"lane"}, nil)
	receiverFigure   = prometheus.NewDesc("eventsvc_receiver_deliveries", "Deliveries by receiver and state, of the 200 receivers with the oldest.", []string{"receiver", "state"}, nil)
)

// Describe implements prometheus.Collector.
func (f figures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{deliveriesFigure, oldestFigure, lapsedFigure, laneFigure, laneOldestFigure, relaysFigure, receiverFigure} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Where the database cannot be asked, there are
// no figures, rather than old ones that look new.
func (f figures) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), figuresTimeout)
	defer cancel()
	s, err := f.watch.Status(ctx, figuresAge)
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	states := func(d *prometheus.Desc, n *ledger.Figures, labels ...string) {
		gauge(d, float64(n.Owed), append(labels, "owed")...)
		gauge(d, float64(n.Scheduled), append(labels, "scheduled")...)
		gauge(d, float64(n.Claimed), append(labels, "claimed")...)
		gauge(d, float64(n.Dead), append(labels, "dead")...)
	}
	states(deliveriesFigure, &s.Figures)
	gauge(oldestFigure, s.OldestSeconds)
	gauge(lapsedFigure, float64(s.Lapsed))
	for i := range s.Lanes {
		l := &s.Lanes[i]
		states(laneFigure, &l.Figures, l.Lane)
		gauge(laneOldestFigure, l.OldestSeconds, l.Lane)
		gauge(relaysFigure, float64(l.Relays), l.Lane)
	}
	for i := range s.Receivers[:min(len(s.Receivers), maxSeries)] {
		states(receiverFigure, &s.Receivers[i].Figures, s.Receivers[i].Receiver)
	}
}
