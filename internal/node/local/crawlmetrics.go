package local

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/web/robots"
)

// CrawlMetrics show Prometheus the counts of the crawl. Counters begin at zero with the process. There are none before
// the crawl begins, so that the registry does not know their descriptions beforehand. No label names a host. It
// implements prometheus.Collector.
type CrawlMetrics struct {
	Robots *robots.Cache
	Apps   ApplicationCounts
	Files  *atomic.Int64 // how often a file could not be opened for want of descriptors
	Run    Run
}

// ApplicationCounts are those of the applications.
type ApplicationCounts interface{ States() []applications.State }

var (
	descPages    = Desc("orbweaver_crawl_pages_total", "Pages (2xx responses) archived.")
	descFiles    = Desc("orbweaver_crawl_files_total", "Files that pages embed, and sitemaps (2xx responses).")
	descAllPages = Desc("orbweaver_all_runs_pages", "Pages (2xx responses) archived in all runs of the crawl.")
	descAllFiles = Desc("orbweaver_all_runs_files",
		"Files that pages embed, and sitemaps (2xx responses), in all runs of the crawl.")
	descAllBytes  = Desc("orbweaver_all_runs_received_bytes", "Bytes received in all runs of the crawl.")
	descFetched   = Desc("orbweaver_fetch_responses_total", "HTTP responses, without those for robots.txt.", "code")
	descBytes     = Desc("orbweaver_fetch_received_bytes_total", "Bytes received.")
	descNear      = Desc("orbweaver_crawl_near_duplicates_total", "Pages that are near-duplicates of an archived one.")
	descRefetched = Desc("orbweaver_crawl_refetched_total",
		"Pages of lost archives that were fetched again (on-loss refetch).")
	descEarlier = Desc("orbweaver_crawl_earlier_duplicates_total",
		"Responses whose payload is in the archive of an earlier crawl (dedup-from).")
	descListed = Desc("orbweaver_lost_listed_urls",
		"URLs on this agent's lists of lost archives: they wait to be fetched again.")
	descRevisits  = Desc("orbweaver_crawl_revisits_total", "Visits to URLs that were visited before.")
	descUnchanged = Desc("orbweaver_crawl_unchanged_total", "Visits to URLs visited before that found no change.")
	descErrors    = Desc("orbweaver_fetch_errors_total", "URLs given up after an error, by kind of error.", "kind")
	descRetrying  = Desc("orbweaver_fetch_retrying_urls",
		"URLs that failed and will be retried, by kind of error.", "kind")
	descDenied = Desc("orbweaver_robots_denied_total", "URLs that robots.txt forbids.")
	descRobots = Desc("orbweaver_robots_origins",
		"Origins (scheme, host and port) whose robots.txt is in memory.")
	descRobotsBytes = Desc("orbweaver_robots_memory_bytes", "Memory that the robots.txt files in memory take.")
	descForgot      = Desc("orbweaver_robots_forgotten_total",
		"Origins whose robots.txt left the memory because it was full. It is fetched again when needed.")
	descUnique = Desc("orbweaver_seen_urls", "Different URLs accepted.")
	descQueued = Desc("orbweaver_frontier_queued_urls", "URLs that wait for a visit, in queues and in pools.")
	descHosts  = Desc("orbweaver_frontier_hosts", "Hosts by the state of their queue.", "state")
	descActive = Desc("orbweaver_frontier_active_hosts",
		"Hosts that the crawl wants to keep ready in memory: its speed times its delay.")
	descPooled  = Desc("orbweaver_frontier_pooled_urls", "URLs that wait in pools on disk, not yet in a host's queue.")
	descAside   = Desc("orbweaver_frontier_aside_urls", "URLs that exclusions have set aside.")
	descClaimed = Desc("orbweaver_hosts_claimed_total", "Hosts that this agent took over from other agents.")
	descGiven   = Desc("orbweaver_hosts_given_total", "Hosts that this agent gave to other agents.")
	descSent    = Desc("orbweaver_exchange_urls_sent_total", "URLs sent to the agents that own their hosts.")
	descHeld    = Desc("orbweaver_hosts_held",
		"Hosts that wait until other agents have said which of their pages are finished.")
	descLeases = Desc("orbweaver_lease_messages_total",
		"Calls and answers sent for leases of addresses and registered domains.")
	descAsked      = Desc("orbweaver_lease_asked_total", "Requests for a lease of an address or a domain.")
	descLeaseWaits = Desc("orbweaver_lease_waits_total", "Times that a host was due and began to wait for a lease.")
	descCutOff     = Desc("orbweaver_lease_cut_off_total", "Visits cut off because a lease was lost.")
	descAwaited    = Desc("orbweaver_lease_awaited", "Addresses and domains whose lease hosts wait for.")
	descShortages  = Desc("orbweaver_files_short_total",
		"Times that the process had no file descriptor left and had to wait for one.")
	descAppQueued  = Desc("orbweaver_application_queued_urls", "URLs of an application that wait.", "application")
	descAppFetched = Desc("orbweaver_application_fetched_total", "URLs of an application that are finished.",
		"application")
	descAppShared = Desc("orbweaver_application_shared_total",
		"URLs of an application whose page the crawl had fetched already.", "application")
	descAppPages = Desc("orbweaver_application_unacknowledged_pages",
		"Pages of an application that its process has not acknowledged.", "application")
	descAppHeld = Desc("orbweaver_application_held",
		"1 if too many pages of an application are not acknowledged, and its URLs wait; else 0.", "application")
	descOpen = Desc("orbweaver_crawl_open_requests", "Open requests: visits under way.")
)

func (m *CrawlMetrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

func (m *CrawlMetrics) Collect(ch chan<- prometheus.Metric) {
	s := m.Run.Status()
	if s == nil {
		return
	}
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	n := m.Run.Counts()
	count(descPages, n.Pages)
	count(descFiles, n.Files)
	count(descBytes, n.Bytes)
	count(descDenied, n.Denied)
	count(descNear, n.Near)
	count(descEarlier, n.Earlier)
	count(descRefetched, n.Refetched)
	count(descRevisits, n.Revisits)
	count(descUnchanged, n.Unchanged)
	if m.Run.Cluster() != nil {
		count(descSent, n.Sent)
	}
	for kind, n := range n.Errors {
		count(descErrors, n, kind)
	}
	for code, n := range byCode(n.Codes) {
		count(descFetched, n, code)
	}
	gauge(descAllPages, s.Pages)
	gauge(descAllFiles, s.Files)
	gauge(descAllBytes, s.Bytes)
	if s.Cluster.Lost != nil {
		gauge(descListed, s.Cluster.Lost.Listed)
	}
	for kind, n := range s.Retrying {
		gauge(descRetrying, n, kind)
	}
	known := m.Robots.Stats()
	gauge(descRobots, int64(known.Origins))
	gauge(descRobotsBytes, known.Bytes)
	count(descForgot, known.Forgotten)
	count(descShortages, m.Files.Load())
	gauge(descUnique, s.Unique)
	gauge(descQueued, s.Frontier.Queued)
	gauge(descOpen, int64(s.Open))
	f := s.Frontier
	if v := s.Cluster.Moves; v != nil {
		count(descClaimed, v.Claimed)
		count(descGiven, v.Given)
		gauge(descHeld, int64(v.Held))
	}
	if l := s.Cluster.Leases; l != nil {
		count(descLeases, l.Messages)
		count(descAsked, l.Asked)
		count(descLeaseWaits, l.Waits)
		count(descCutOff, l.CutOff)
		gauge(descAwaited, int64(f.LeasesAwaited))
	}
	for _, app := range m.Apps.States() {
		name := verbs.NameOf(app.Name)
		gauge(descAppQueued, app.Queued, name)
		count(descAppFetched, app.Fetched-app.Before.Fetched, name)
		count(descAppShared, app.Shared-app.Before.Shared, name)
		gauge(descAppPages, app.Unacknowledged, name)
		held := int64(0)
		if app.Held {
			held = 1
		}
		gauge(descAppHeld, held, name)
	}
	m.collectSizes(s, gauge)
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

// byCode returns the responses by the value of the label code. Servers choose their status, and the number of values is
// bounded: a status that is not in the registry of HTTP counts under its class, such as 5xx, or under "other".
func byCode(codes map[int]int64) map[string]int64 {
	sums := map[string]int64{"200": 0} // a counter begins at zero, not with its first response
	for code, n := range codes {
		switch class := code / 100; {
		case http.StatusText(code) != "":
			sums[strconv.Itoa(code)] += n
		case class >= 1 && class <= 5:
			sums[strconv.Itoa(class)+"xx"] += n
		default:
			sums["other"] += n
		}
	}
	return sums
}

var (
	descSizeMemory = Desc("orbweaver_structure_memory_bytes",
		"Memory that a main data structure takes; structure is its name.", "structure")
	descSizeLimit = Desc("orbweaver_structure_memory_limit_bytes",
		"The most memory that the structure may take, if it has a limit.", "structure")
	descSizeDisk = Desc("orbweaver_structure_disk_bytes", "Size of the structure on disk.", "structure")
)

// collectSizes shows the sizes.
func (m *CrawlMetrics) collectSizes(s *crawl.Status, gauge func(d *prometheus.Desc, v int64, labels ...string)) {
	for _, z := range m.Run.Sizes(s) {
		gauge(descSizeMemory, z.Memory, z.Name)
		if z.Limit > 0 {
			gauge(descSizeLimit, z.Limit, z.Name)
		}
		if z.Disk > 0 {
			gauge(descSizeDisk, z.Disk, z.Name)
		}
	}
}
