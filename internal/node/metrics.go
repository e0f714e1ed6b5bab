package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// exchanges shows the calls between agents to Prometheus.
type exchanges struct{ c *membership }

var (
	descAgents    = prometheus.NewDesc("orbweaver_cluster_agents", "Agents that have hosts, by this one's view.", nil, nil)
	descCalls     = prometheus.NewDesc("orbweaver_exchange_calls_total", "Calls between agents: made by this one (out), or answered (in).", []string{"call", "way"}, nil)
	descCallErrs  = prometheus.NewDesc("orbweaver_exchange_errors_total", "Of these: ended in an error.", []string{"call", "way"}, nil)
	descRefused   = prometheus.NewDesc("orbweaver_exchange_refused_total", "Callers and messages that were turned away, by reason.", []string{"reason"}, nil)
	descExchanged = prometheus.NewDesc("orbweaver_exchange_bytes_total", "Bytes on the wire between agents, packets of gossip not counted.", []string{"way"}, nil)
	descSent      = prometheus.NewDesc("orbweaver_exchange_urls_sent_total", "URLs that other agents crawl, and have.", nil, nil)
	descOutgoing  = prometheus.NewDesc("orbweaver_exchange_urls_outgoing", "URLs that other agents are to have.", nil, nil)
)

// Describe implements prometheus.Collector.
func (e exchanges) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(e, ch) }

// Collect implements prometheus.Collector.
func (e exchanges) Collect(ch chan<- prometheus.Metric) {
	metric := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	in, out := e.c.server.Counts(), e.c.client.Counts()
	for _, s := range []struct {
		way string
		rpc.Counts
	}{{"in", in}, {"out", out}} {
		for call, n := range s.Calls {
			metric(descCalls, prometheus.CounterValue, float64(n), call, s.way)
		}
		for call, n := range s.Errors {
			metric(descCallErrs, prometheus.CounterValue, float64(n), call, s.way)
		}
	}
	for reason, n := range in.Refused {
		metric(descRefused, prometheus.CounterValue, float64(n), reason)
	}
	metric(descExchanged, prometheus.CounterValue, float64(in.Sent+out.Sent), "out")
	metric(descExchanged, prometheus.CounterValue, float64(in.Received+out.Received), "in")
	if r := e.c.owners.Load(); r != nil {
		metric(descAgents, prometheus.GaugeValue, float64(len(r.Agents())))
	}
	e.c.a.contents.collect(func(d *prometheus.Desc, v int64) { metric(d, prometheus.CounterValue, float64(v)) })
	if s := e.c.a.Status(); s != nil {
		metric(descSent, prometheus.CounterValue, float64(s.Sent))
		metric(descOutgoing, prometheus.GaugeValue, float64(s.Outgoing))
	}
}
