package node

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/node/console"
	"github.com/orbweaver/orbweaver/internal/node/crawldir"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// APIAccess is the content of crawldir.APIFile and crawldir.APIReaderFile, as JSON: the address of the API and the
// token that callers must send. With TLS, Cert is the certificate of the API in DER.
type APIAccess struct {
	Addr  string `json:"addr"`
	Token string `json:"token"`
	Cert  []byte `json:"cert,omitempty"`
}

// Serve answers the API on ln, which comes from admin.Reserve, until Close. It uses TLS if there is a certificate. If
// cert is nil and ln is not on loopback, it uses the certificate of the cluster's keys. It writes the files of package
// crawldir about the API, which Close removes. Call it before Run. If it returns an error, Close closes ln.
func (a *Agent) Serve(ln net.Listener, cert *tls.Certificate) error {
	reg := prometheus.NewRegistry()
	reg.MustRegister(gauges{a}, collector{a}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if a.membership != nil {
		reg.MustRegister(exchanges{a.membership})
	}
	access := APIAccess{Token: admin.NewToken()}
	forReaders := APIAccess{Token: admin.NewToken()}
	if ap, err := netip.ParseAddrPort(ln.Addr().String()); cert == nil && err == nil && !ap.Addr().IsLoopback() &&
		a.membership != nil && a.membership.joining.keys != nil {
		cert = a.membership.joining.keys.Certificate()
	}
	s, err := admin.Listen(admin.Config{
		Listener: ln, Cert: cert, Token: access.Token, ReaderToken: forReaders.Token, Metrics: reg,
		Operator: a.operator, Ready: a.ready, Now: a.now, Console: console.Handler(),
		Archive: a.archive.Frame(a.operator), MemoryBytes: a.budget.of(shareCalls),
		Panicked: local.Panicked(a.parts.Events),
	})
	if err != nil {
		return &input.Error{Text: err.Error()}
	}
	a.onClose(s.Close)
	for _, f := range []struct {
		name string
		APIAccess
	}{{crawldir.APIReaderFile, forReaders}, {crawldir.APIFile, access}} {
		if f.Addr = s.Addr(); cert != nil {
			f.Cert = cert.Certificate[0]
		}
		b, err := json.Marshal(f.APIAccess)
		if err != nil {
			return fmt.Errorf("api: %w", err)
		}
		if err := disk.WriteSecret(a.fs, a.dir(f.name), append(b, '\n')); err != nil {
			return err
		}
		a.onClose(func() error { return a.fs.Remove(a.dir(f.name)) })
	}
	if err := disk.WriteSecret(a.fs, a.dir(crawldir.TokenFile), []byte(forReaders.Token)); err != nil {
		return err
	}
	a.onClose(func() error { return a.fs.Remove(a.dir(crawldir.TokenFile)) })
	return nil
}

// ready reports whether the agent crawls: it has met the others of its cluster, and does not stop.
// A crawl that an operator has paused is ready: the agent takes part in it, and goes on when it is told. Otherwise an
// upgrade during a pause would wait for ever, and a load balancer would hide the API that ends the pause.
func (a *Agent) ready() bool {
	s := a.Status()
	return s != nil && s.Stop == ""
}

// waits returns what an agent of a cluster waits for before the crawl begins.
func (a *Agent) waits() (w Waiting, ok bool) {
	if a.membership == nil || a.Status() != nil {
		return Waiting{}, false
	}
	if w := a.membership.joining.waits.Load(); w != nil {
		return *w, true
	}
	return Waiting{Type: "waiting", For: "an agent that answers", Agents: []string{}}, true
}

// gauges shows the crawl's Status to Prometheus. No label names a host.
type gauges struct{ a *Agent }

var (
	descPages     = desc("orbweaver_crawl_pages_total", "Pages (2xx responses) archived, all runs together.")
	descFetched   = desc("orbweaver_fetch_responses_total", "HTTP responses, without those for robots.txt.")
	descBytes     = desc("orbweaver_fetch_received_bytes_total", "Bytes received.")
	descNear      = desc("orbweaver_crawl_near_duplicates_total", "Pages that are near-duplicates of an archived one.")
	descRefetched = desc("orbweaver_crawl_refetched_total",
		"Pages of lost archives that were fetched again (--on-loss refetch).")
	descListed = desc("orbweaver_lost_listed_urls",
		"URLs on this agent's lists of lost archives: they wait to be fetched again.")
	descCopied = desc("orbweaver_archive_copied_files",
		"Finished archive files of this agent of which another agent has a copy (--archive-copies 2).")
	descUncopied = desc("orbweaver_archive_waiting_files",
		"Finished archive files of this agent that wait to be copied to another agent (--archive-copies 2).")
	descCopyBytes = desc("orbweaver_archive_held_bytes",
		"Bytes of the copies of other agents' archive files at this agent (--archive-copies 2).")
	descRevisits  = desc("orbweaver_crawl_revisits_total", "Visits to URLs that were visited before.")
	descUnchanged = desc("orbweaver_crawl_unchanged_total", "Visits to URLs visited before that found no change.")
	descErrors    = desc("orbweaver_fetch_errors_total", "URLs given up after an error, by kind of error.", "kind")
	descRetrying  = desc("orbweaver_fetch_retrying_urls",
		"URLs that failed and will be retried, by kind of error.", "kind")
	descDenied = desc("orbweaver_robots_denied_total", "URLs that robots.txt forbids.")
	descRobots = desc("orbweaver_robots_origins",
		"Origins (scheme, host and port) whose robots.txt is in memory.")
	descRobotsBytes = desc("orbweaver_robots_memory_bytes", "Memory that the robots.txt files in memory take.")
	descForgot      = desc("orbweaver_robots_forgotten_total",
		"Origins whose robots.txt left the memory because it was full. It is fetched again when needed.")
	descUnique = desc("orbweaver_seen_urls", "Different URLs accepted.")
	descQueued = desc("orbweaver_frontier_queued_urls", "URLs that wait for a visit, in queues and in pools.")
	descHosts  = desc("orbweaver_frontier_hosts", "Hosts by the state of their queue.", "state")
	descActive = desc("orbweaver_frontier_active_hosts",
		"Hosts that the crawl wants to keep ready in memory: its speed times its delay.")
	descPooled  = desc("orbweaver_frontier_pooled_urls", "URLs that wait in pools on disk, not yet in a host's queue.")
	descAside   = desc("orbweaver_frontier_aside_urls", "URLs that exclusions have set aside.")
	descClaimed = desc("orbweaver_hosts_claimed_total", "Hosts that this agent took over from other agents.")
	descGiven   = desc("orbweaver_hosts_given_total", "Hosts that this agent gave to other agents.")
	descHeld    = desc("orbweaver_hosts_held",
		"Hosts that wait until other agents have said which of their pages are finished.")
	descLeases = desc("orbweaver_lease_messages_total",
		"Calls and answers sent for leases of addresses and registered domains.")
	descAsked      = desc("orbweaver_lease_asked_total", "Requests for a lease of an address or a domain.")
	descLeaseWaits = desc("orbweaver_lease_waits_total", "Times that a host was due and began to wait for a lease.")
	descCutOff     = desc("orbweaver_lease_cut_off_total", "Visits cut off because a lease was lost.")
	descAwaited    = desc("orbweaver_lease_awaited", "Addresses and domains whose lease hosts wait for.")
	descShortages  = desc("orbweaver_files_short_total",
		"Times that the process had no file descriptor left and had to wait for one.")
	descAppQueued  = desc("orbweaver_application_queued_urls", "URLs of an application that wait.", "application")
	descAppFetched = desc("orbweaver_application_fetched_total", "URLs of an application that are finished.",
		"application")
	descAppShared = desc("orbweaver_application_shared_total",
		"URLs of an application whose page the crawl had fetched already.", "application")
	descAppPages = desc("orbweaver_application_unacknowledged_pages",
		"Pages of an application that its process has not acknowledged.", "application")
	descAppHeld = desc("orbweaver_application_held",
		"1 if too many pages of an application are not acknowledged, and its URLs wait; else 0.", "application")
	descOpen = desc("orbweaver_crawl_open_requests", "Open requests: visits under way.")
)

// desc describes a metric without constant labels. docs/reference/metrics.md is made of
// all calls of desc.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (g gauges) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, ch) }

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	s := g.a.Status()
	if s == nil {
		return
	}
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	count(descPages, s.Pages)
	count(descFetched, s.Fetched)
	count(descBytes, s.Bytes)
	count(descDenied, s.Denied)
	count(descNear, s.Near)
	count(descRefetched, s.Refetched)
	if s.Lost != nil {
		gauge(descListed, s.Lost.Listed)
	}
	if n := s.ArchiveCopies; n != nil {
		gauge(descCopied, n.Copied)
		gauge(descUncopied, n.Waiting)
		gauge(descCopyBytes, n.HeldBytes)
	}
	count(descRevisits, s.Revisits)
	count(descUnchanged, s.Unchanged)
	for kind, n := range s.Errors {
		count(descErrors, n, kind)
	}
	for kind, n := range s.Retrying {
		gauge(descRetrying, n, kind)
	}
	known := g.a.parts.Robots.Stats()
	gauge(descRobots, int64(known.Origins))
	gauge(descRobotsBytes, known.Bytes)
	count(descForgot, known.Forgotten)
	count(descShortages, g.a.shortages.Load())
	gauge(descUnique, s.Unique)
	gauge(descQueued, s.Frontier.Queued)
	gauge(descOpen, int64(s.Open))
	f := s.Frontier
	if m := s.Moves; m != nil {
		count(descClaimed, m.Claimed)
		count(descGiven, m.Given)
		gauge(descHeld, int64(m.Held))
	}
	if l := s.Leases; l != nil {
		count(descLeases, l.Messages)
		count(descAsked, l.Asked)
		count(descLeaseWaits, l.Waits)
		count(descCutOff, l.CutOff)
		gauge(descAwaited, int64(f.LeasesAwaited))
	}
	for _, app := range g.a.crawler.ApplicationStates() {
		name := operate.NameOf(app.Name)
		gauge(descAppQueued, app.Queued, name)
		count(descAppFetched, app.Fetched, name)
		count(descAppShared, app.Shared, name)
		gauge(descAppPages, app.Unacknowledged, name)
		held := int64(0)
		if app.Held {
			held = 1
		}
		gauge(descAppHeld, held, name)
	}
	g.a.collectSizes(s, gauge)
	gauge(descActive, int64(s.Active))
	gauge(descPooled, f.Pooled)
	gauge(descAside, f.Aside)
	for state, n := range map[string]int{
		"ready": f.Ready, "resting": f.Resting, "paused": f.Paused, "fetching": f.Fetching,
		"resolving": f.Resolving, "blocked": f.Blocked, "empty": f.Empty,
	} {
		gauge(descHosts, int64(n), state)
	}
}

// Operator answers operators for the whole cluster.
func (a *Agent) Operator() *operate.Operator { return a.operator }
