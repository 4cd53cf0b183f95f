package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventsvc/eventsvc/internal/registry"
)

// filterFigures are the errors of filters that this process met: add them up over
// processes.
type filterFigures struct{ book *registry.Book }

var filterErrorsFigure = prometheus.NewDesc("eventsvc_filter_errors_total", "Events on which a receiver's filter failed, which is no match.", []string{"receiver"}, nil)

// Describe implements prometheus.Collector.
func (f filterFigures) Describe(ch chan<- *prometheus.Desc) { ch <- filterErrorsFigure }

// Collect implements prometheus.Collector.
func (f filterFigures) Collect(ch chan<- prometheus.Metric) {
	shown := 0
	for receiver, n := range f.book.FilterErrors() {
		if shown++; shown > maxSeries {
			return
		}
		ch <- prometheus.MustNewConstMetric(filterErrorsFigure, prometheus.CounterValue, float64(n), receiver)
	}
}
