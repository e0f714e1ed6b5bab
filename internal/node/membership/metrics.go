package membership

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/contents"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/report"
)

// Metrics reports the calls between agents to Prometheus.
func (c *Membership) Metrics() prometheus.Collector {
	return exchanges{c.server, c.Members, c.calls, c.Division, c.contents, c.sites, c.agent}
}

// exchanges are the parts that count calls. They implement prometheus.Collector.
type exchanges struct {
	server   *rpc.Server
	members  *members.Members
	calls    *cluster.Calls
	division *Division
	contents *contents.Service  // nil: the agents do not share contents
	sites    *follower.Follower // nil: no coordinator assigns the hosts
	agent    Agent
}

var (
	descAgents = local.Desc("orbweaver_cluster_agents", "Agents that own hosts, as this agent sees the cluster.")
	descCalls  = local.Desc("orbweaver_exchange_calls_total",
		"Calls between agents; way is out (made by this agent) or in (answered by it).", "call", "way")
	descCallErrs = local.Desc("orbweaver_exchange_errors_total",
		"Calls between agents that ended in an error.", "call", "way")
	descRefused = local.Desc("orbweaver_exchange_refused_total",
		"Callers and messages that this agent refused, by reason.", "reason")
	descExchanged = local.Desc("orbweaver_exchange_bytes_total",
		"Bytes exchanged with other agents, on the wire.", "way")
	descBodies = local.Desc("orbweaver_exchange_message_bytes_total",
		"Bytes of messages sent to other agents, after compression. "+
			"The rest of orbweaver_exchange_bytes_total is HTTP, TLS and gossip.", "call")
	descLinks = local.Desc("orbweaver_exchange_links_sent_total", "Links sent to other agents.")
	descKeys  = local.Desc("orbweaver_exchange_keys_asked_total",
		"URLs that this agent asked their owners about, to send only the links that they do not know.")
	descOutgoing = local.Desc("orbweaver_exchange_urls_outgoing", "URLs that wait to be sent to other agents.")
	descAssigned = local.Desc("orbweaver_sites_hosts", "Hosts of which this agent knows the assignment.")
	descUnowned  = local.Desc("orbweaver_sites_hosts_waiting", "Hosts whose links wait until their owner is known.")
	descNumber   = local.Desc("orbweaver_sites_assignment_number",
		"Number of the last assignment that this agent knows.")
	descLast = local.Desc("orbweaver_sites_assignment_number_last",
		"Number of the last assignment, when the leading coordinator last answered.")
	descContents  = local.Desc("orbweaver_contents_total", "Pages whose content was looked up (partition hash).")
	descElsewhere = local.Desc("orbweaver_contents_elsewhere_total",
		"Looked-up pages whose content another agent judges.")
	descRecent = local.Desc("orbweaver_contents_recent_total",
		"Looked-up pages that this agent judged from its recent answers, without a question.")
	descContentDouble = local.Desc("orbweaver_contents_duplicates_total",
		"Looked-up pages that are duplicates: another page with the content is archived in full.")
	descWaited = local.Desc("orbweaver_contents_waited_total",
		"Looked-up pages that waited until another page with the content was archived.")
	descUnanswered = local.Desc("orbweaver_contents_unanswered_total",
		"Looked-up pages archived in full because no answer came in time.")
	descTold   = local.Desc("orbweaver_contents_told_total", "Pages archived in full that other agents know of.")
	descUntold = local.Desc("orbweaver_contents_untold_total",
		"Pages archived in full that no agent could be told of.")
	descWouldExport = local.Desc("orbweaver_contents_would_export_bytes_total",
		"Bytes that agents would exchange if the pages themselves travelled. They do not.")
)

func (e exchanges) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(e, ch) }

func (e exchanges) Collect(ch chan<- prometheus.Metric) {
	metric := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	in, out := e.server.Counts(), e.members.Client.Counts()
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
	for call, n := range in.Bodies {
		metric(descBodies, prometheus.CounterValue, float64(n+out.Bodies[call]), call)
	}
	metric(descLinks, prometheus.CounterValue, float64(e.calls.Pushed()))
	metric(descKeys, prometheus.CounterValue, float64(e.calls.Durable.Asked()))
	for reason, n := range in.Refused {
		metric(descRefused, prometheus.CounterValue, float64(n), reason)
	}
	metric(descExchanged, prometheus.CounterValue, float64(in.Sent+out.Sent), "out")
	metric(descExchanged, prometheus.CounterValue, float64(in.Received+out.Received), "in")
	if r := e.division.Owners(); r != nil {
		metric(descAgents, prometheus.GaugeValue, float64(len(r.Agents())))
	}
	if e.contents != nil {
		n := e.contents.Counts()
		count := func(d *prometheus.Desc, v int64) { metric(d, prometheus.CounterValue, float64(v)) }
		count(descContents, n.Pages)
		count(descElsewhere, n.Elsewhere)
		count(descRecent, n.Recent)
		count(descContentDouble, n.Duplicates)
		count(descWaited, n.Waited)
		count(descUnanswered, n.Unanswered)
		count(descTold, n.Told)
		count(descUntold, n.Untold)
		count(descWouldExport, n.WouldExport)
	}
	if s := e.agent.Progress(); s != nil {
		metric(descOutgoing, prometheus.GaugeValue, float64(s.Cluster.Outgoing))
	}
	if e.sites != nil {
		s := e.sites.Status()
		metric(descAssigned, prometheus.GaugeValue, float64(s.Hosts))
		metric(descUnowned, prometheus.GaugeValue, float64(s.Waiting))
		metric(descNumber, prometheus.GaugeValue, float64(s.Number))
		metric(descLast, prometheus.GaugeValue, float64(s.Last))
	}
}

// Exchange returns what this run has sent to other agents. pages is the number of its pages.
func (c *Membership) Exchange(pages int64) *report.Exchange {
	in, out := c.server.Counts(), c.Members.Client.Counts()
	e := &report.Exchange{Agents: int(c.most.Load()), Links: int64(c.calls.Pushed()),
		Keys: int64(c.calls.Durable.Asked()), Bytes: int64(in.Sent + out.Sent), ByCall: map[string]int64{},
		Calls: map[string]int64{}, Answers: map[string]int64{}}
	rest := e.Bytes
	for _, m := range []map[string]uint64{in.Bodies, out.Bodies} {
		for call, n := range m {
			if n > 0 {
				e.ByCall[strings.ToLower(call)] += int64(n)
				rest -= int64(n)
			}
		}
	}
	for call, n := range out.Calls {
		if n > 0 {
			e.Calls[strings.ToLower(call)] = int64(n)
		}
	}
	for call, n := range out.Answers {
		if n > 0 {
			e.Answers[strings.ToLower(call)] = int64(n)
		}
	}
	e.ByCall["gossip"], e.ByCall["transport"] = int64(in.Packets), rest-int64(in.Packets)
	e.Count(pages)
	return e
}

// Report adds to a status what the cluster knows. pages is the number of pages of this run.
func (c *Membership) Report(s *crawl.Status, pages int64) {
	s.Cluster.Exchange = c.Exchange(pages)
	s.Cluster.Lost = c.lists.Lost()
	s.Cluster.Agents = c.present()
	if c.sites != nil {
		s.Cluster.Sites = c.sites.Status()
	}
}
