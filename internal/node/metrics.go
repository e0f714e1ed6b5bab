package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// exchanges reports the calls between agents to Prometheus.
type exchanges struct{ c *membership }

var (
	descAgents = desc("orbweaver_cluster_agents", "Agents that own hosts, as this agent sees the cluster.")
	descCalls  = desc("orbweaver_exchange_calls_total",
		"Calls between agents; way is out (made by this agent) or in (answered by it).", "call", "way")
	descCallErrs = desc("orbweaver_exchange_errors_total",
		"Calls between agents that ended in an error.", "call", "way")
	descRefused = desc("orbweaver_exchange_refused_total",
		"Callers and messages that this agent refused, by reason.", "reason")
	descExchanged = desc("orbweaver_exchange_bytes_total",
		"Bytes exchanged with other agents, without the packets of the membership protocol.", "way")
	descSent     = desc("orbweaver_exchange_urls_sent_total", "URLs sent to the agents that own their hosts.")
	descOutgoing = desc("orbweaver_exchange_urls_outgoing", "URLs that wait to be sent to other agents.")
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
	if r := e.c.owners(); r != nil {
		metric(descAgents, prometheus.GaugeValue, float64(len(r.Agents())))
	}
	e.c.a.contents.collect(func(d *prometheus.Desc, v int64) { metric(d, prometheus.CounterValue, float64(v)) })
	if s := e.c.a.Status(); s != nil {
		metric(descSent, prometheus.CounterValue, float64(s.Sent))
		metric(descOutgoing, prometheus.GaugeValue, float64(s.Outgoing))
	}
}
