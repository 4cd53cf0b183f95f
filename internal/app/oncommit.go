package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventsvc/eventsvc/internal/moment"
)

// onCommitFigures are what became of requests to on_commit receivers in this process: add
// them up over processes.
type onCommitFigures struct{ after *moment.After }

var onCommitFigure = prometheus.NewDesc("eventsvc_on_commit_total", "Events for on_commit receivers: told, failed, or dropped without a request.", []string{"outcome"}, nil)

// Describe implements prometheus.Collector.
func (f onCommitFigures) Describe(ch chan<- *prometheus.Desc) { ch <- onCommitFigure }

// Collect implements prometheus.Collector.
func (f onCommitFigures) Collect(ch chan<- prometheus.Metric) {
	n := f.after.Counts()
	for outcome, count := range map[string]int64{"ok": n.OK, "failed": n.Failed, "dropped": n.Dropped} {
		ch <- prometheus.MustNewConstMetric(onCommitFigure, prometheus.CounterValue, float64(count), outcome)
	}
}
