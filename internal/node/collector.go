package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// collector shows Prometheus what an alert needs besides the counts of the crawl. It also answers before the crawl
// begins, so that an agent that waits for others can be told from an agent that is down.
type collector struct{ a *Agent }

var (
	descInfo = desc("orbweaver_agent_info",
		"Always 1. The labels have the agent's name, which is empty in a crawl of one agent, and the version of "+
			"the program.", "agent", "version")
	descReady  = desc("orbweaver_crawl_ready", "1 if the agent has joined its cluster and crawls, else 0.")
	descPaused = desc("orbweaver_crawl_paused", "1 if an operator has paused the crawl, else 0.")
	descFree   = desc("orbweaver_disk_free_bytes",
		"Bytes that the crawl can still write to the file system of its directory.")
	descSize = desc("orbweaver_disk_size_bytes", "Size of the file system of the crawl directory.")
	descTime = desc("orbweaver_time_seconds", "Time of the machine's clock, in seconds since 1970 (UTC).")
)

// Describe implements prometheus.Collector.
func (m collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m collector) Collect(ch chan<- prometheus.Metric) {
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
	agent := ""
	if m.a.membership != nil {
		agent = m.a.membership.members.Self.Name
	}
	gauge(descInfo, 1, agent, Version)
	flag(descReady, m.a.ready())
	s := m.a.Status()
	flag(descPaused, s != nil && s.Paused)
	if free, size := disk.Space(m.a.cfg.Dir); size > 0 {
		gauge(descFree, float64(free))
		gauge(descSize, float64(size))
	}
	gauge(descTime, float64(time.Now().UnixMicro())/1e6)
}
