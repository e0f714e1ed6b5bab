package local

import "github.com/prometheus/client_golang/prometheus"

// Histogram describes a histogram of durations in seconds with one label. docs/reference/metrics.md is made of all
// calls of Histogram and Desc.
func Histogram(name, help, label string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help,
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{label})
}

// NewPhases returns the histograms of the phases of fetches.
func NewPhases() *prometheus.HistogramVec {
	return Histogram("orbweaver_fetch_duration_seconds",
		"Time of each phase of a fetch, those for robots.txt included. Phases that failed are not counted.", "phase")
}
