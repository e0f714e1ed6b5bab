package local

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Metrics show Prometheus what an alert needs besides the counts of the crawl. They also answer before the crawl
// begins, so that an agent that waits for others can be told from an agent that is down.
// It implements prometheus.Collector.
type Metrics struct {
	Agent    string // its name; "": the crawl has one agent
	Version  string // of the program
	Go       string // version of Go that has built it
	Revision string // commit of its sources; "": not known
	Dir      string // of the crawl
	Run      Run
}

// Ready reports whether the agent crawls: it has met the others of its cluster, and does not stop.
// A crawl that an operator has paused is ready: the agent takes part in it, and goes on when it is told. Otherwise an
// upgrade during a pause would wait for ever, and a load balancer would hide the API that ends the pause.
func (m *Metrics) Ready() bool {
	s := m.Run.Status()
	return s != nil && s.Stop == ""
}

var (
	descInfo = Desc("orbweaver_agent_info",
		"Always 1. The labels have the agent's name, which is empty in a crawl of one agent, and the version of "+
			"the program.", "agent", "version")
	descBuild = Desc("orbweaver_build_info",
		"Always 1. The labels have the version of the program, the version of Go that has built it, and the commit of "+
			"its sources, which is empty if it is not known.", "version", "goversion", "revision")
	descReady  = Desc("orbweaver_crawl_ready", "1 if the agent has joined its cluster and crawls, else 0.")
	descPaused = Desc("orbweaver_crawl_paused", "1 if an operator has paused the crawl, else 0.")
	descFree   = Desc("orbweaver_disk_free_bytes",
		"Bytes that the crawl can still write to the file system of its directory.")
	descSize = Desc("orbweaver_disk_size_bytes", "Size of the file system of the crawl directory.")
	descHere = Desc("orbweaver_archive_bytes",
		"Bytes of the segments of the archive that are on the disk. Only with segments.")
	descUnsent = Desc("orbweaver_archive_unsent_bytes",
		"Those of them that the store does not have. Only with a store.")
	descAway = Desc("orbweaver_store_away_seconds",
		"For how long the store has not answered; 0 if it does. Only with a store.")
	descTime = Desc("orbweaver_time_seconds", "Time of the machine's clock, in seconds since 1970 (UTC).")
)

func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	flag := func(d *prometheus.Desc, on bool) {
		v := 0.0
		if on {
			v = 1
		}
		gauge(d, v)
	}
	gauge(descInfo, 1, m.Agent, m.Version)
	gauge(descBuild, 1, m.Version, m.Go, m.Revision)
	flag(descReady, m.Ready())
	s := m.Run.Status()
	flag(descPaused, s != nil && s.Paused)
	if s := disk.Volume(m.Dir).Space(); s.Size > 0 {
		gauge(descFree, float64(s.Free))
		gauge(descSize, float64(s.Size))
	}
	if s != nil && s.Disk.Here > 0 {
		gauge(descHere, float64(s.Disk.Here))
		gauge(descUnsent, float64(s.Disk.Unsent))
		away := 0.0
		if at := s.Disk.Away.Time; !at.IsZero() {
			away = max(s.At.Sub(at).Seconds(), 0)
		}
		gauge(descAway, away)
	}
	gauge(descTime, float64(time.Now().UnixMicro())/1e6)
}

// Desc describes a metric without constant labels. docs/reference/metrics.md is made of
// all calls of Desc and Histogram.
func Desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}
