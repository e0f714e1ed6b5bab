package review

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/report"
)

// A Review is what the files of one or more crawls say. Its JSON is the output of "orbweaver report --json".
type Review struct {
	Type string      `json:"type"`           // "report"
	AsOf clock.Stamp `json:"as_of,omitzero"` // time of the newest line; zero: no line
	Dirs []Dir       `json:"crawls"`
	Totals

	Status     []Count     `json:"by_status"`      // by code
	Errors     []Count     `json:"by_error"`       // by kind; Example is the first cause
	MIME       []Count     `json:"by_mime"`        // by type
	Categories []Count     `json:"by_category"`    // visits to pages that the archives have, by topic
	Skipped    []Count     `json:"by_reason"`      // by reason
	RobotsBy   []Count     `json:"by_robots_host"` // visits that robots.txt forbids, by host; Example is the rule
	Hosts      []Host      `json:"by_host"`        // the hosts with the most URLs
	Slowest    []Visit     `json:"slowest"`        // the responses that took longest
	Largest    []Visit     `json:"largest"`        // the largest responses
	Broken     []Broken    `json:"broken"`         // the first broken links, by kind; of each kind by linking pages
	Chains     []Chain     `json:"redirects"`      // the longest chains of redirects
	Copies     []Count     `json:"copies"`         // pages that came again, by digest; Example is a copy
	Latency    Percentiles `json:"ms_percentiles"`
	Sizes      Percentiles `json:"content_bytes_percentiles"`
	Histograms Histograms  `json:"histograms"`
	Speed      Timeline    `json:"speed"`
	ByHour     []Hour      `json:"by_hour"` // by the hour of the day
}

// Histograms say how many responses, pages, visits and chains of redirects have which values.
type Histograms struct {
	ByLatency []Bar `json:"by_ms"`
	BySize    []Bar `json:"by_content_bytes"`
	ByDepth   []Bar `json:"by_depth"`     // visits by number of links from the seed
	ByChain   []Bar `json:"by_redirects"` // chains of redirects by length
}

// Totals are sums over all crawls of a Review.
type Totals struct {
	Visits     int64 `json:"visits"` // lines of crawl.log, without robots.txt
	Pages      int64 `json:"pages"`  // 2xx responses
	Files      int64 `json:"files"`  // 2xx responses that pages embed, and sitemaps
	Fetched    int64 `json:"fetched"`
	Failed     int64 `json:"failed"`        // visits that ended with a kind of error
	Bytes      int64 `json:"content_bytes"` // received after the HTTP headers
	RobotsTxt  int64 `json:"robots_txt"`
	Denied     int64 `json:"robots_denied"`
	Redirected int64 `json:"redirected"`   // responses with a status 3xx other than 304
	Unchanged  int64 `json:"not_modified"` // responses with status 304
	Duplicates int64 `json:"duplicates"`
	Truncated  int64 `json:"truncated"`

	// HostCount counts hosts. If it is over the limit of the table, AtLeast is set and it is a lower bound.
	HostCount int  `json:"hosts"`
	AtLeast   bool `json:"hosts_at_least,omitempty"`
	// BrokenCount counts broken links. BrokenKnown means that all linking pages are counted, because the crawls have
	// link logs. Otherwise each link has the page on which the crawl found it first.
	BrokenCount int64 `json:"broken_links"`
	BrokenKnown bool  `json:"linking_pages_known"`
	// SkippedCount counts skipped links.
	SkippedCount int64 `json:"skipped_links"`
	// LeastCount is the greatest number of visits that a row of the tables by name can lack because a table was full.
	LeastCount int64 `json:"uncounted_at_most,omitempty"`
	// Seconds is the time in which the crawls ran; of several crawls side by side, the longest.
	Seconds float64 `json:"elapsed_s"`
	// Damaged counts lines that could not be read.
	Damaged int64 `json:"damaged_lines"`
}

// A State says how a crawl ended, if it has.
type State string

// The states. A crawl that stopped has the reason of events.jsonl as its state, such as "finished" or "signal".
const (
	Running State = "running"
	Killed  State = "killed" // the last run did not end by itself
	Failed  State = "error"
	Unknown State = "unknown" // no event
)

// A Dir is one crawl directory.
type Dir struct {
	Path    string      `json:"dir"`
	State   State       `json:"state"`
	Error   string      `json:"error,omitempty"` // with Failed
	Started clock.Stamp `json:"started,omitzero"`
	AsOf    clock.Stamp `json:"as_of,omitzero"` // time of its newest line
	Runs    int         `json:"runs"`
	Seconds float64     `json:"elapsed_s"` // all runs together
	Visits  int64       `json:"visits"`
	Pages   int64       `json:"pages"`
	Bytes   int64       `json:"content_bytes"`
	Failed  int64       `json:"failed"`
	Damaged int64       `json:"damaged_lines"`
	// FirstDamaged says where the first of them is.
	FirstDamaged string `json:"first_damaged,omitempty"`
	Version      string `json:"version,omitempty"` // of the program that ran the crawl last
	// Summary is the crawl's own summary; nil if it has none that is as new as the last event.
	Summary *report.Summary `json:"summary,omitempty"`

	lastRun time.Time // start of the run that has no end yet
	first   time.Time // time of the first line
}

// A Count is a row of a table by name.
type Count struct {
	Name    string `json:"name"`
	Rule    string `json:"rule,omitempty"` // of Skipped: the prefix in hosts: whose setting decided
	Count   int64  `json:"count"`
	Bytes   int64  `json:"content_bytes,omitempty"`
	Example string `json:"example,omitempty"`
}

// A Host is what the log says about one host.
type Host struct {
	Host       string `json:"host"`
	Visits     int64  `json:"visits"`
	Pages      int64  `json:"pages"`
	Files      int64  `json:"files"`
	Bytes      int64  `json:"content_bytes"`
	Failed     int64  `json:"failed"`
	Broken     int64  `json:"broken"`
	Denied     int64  `json:"robots_denied"`
	Duplicates int64  `json:"duplicates"`
	MeanMS     int64  `json:"mean_ms"` // mean time of a response
}

// A Visit is one line of the log.
type Visit struct {
	URL   string `json:"url"`
	Code  int    `json:"status"`
	Bytes int64  `json:"content_bytes"`
	MS    int64  `json:"ms"`
	MIME  string `json:"mime,omitempty"`
}

// A Broken is a URL that could not be fetched, and pages that link to it.
type Broken struct {
	URL    string   `json:"url"`
	Status int      `json:"status,omitempty"` // 0 or negative: no response
	Error  string   `json:"error,omitempty"`  // kind of error
	Kind   string   `json:"kind"`             // KindDocument, KindOwn or KindOthers
	Links  int64    `json:"links"`            // linking pages that are known; 0: a seed
	Pages  []string `json:"pages,omitempty"`  // some of them
	// Via has for each of Pages the redirect to which it links instead, or "-". It is empty if all link to URL itself.
	Via []string `json:"via,omitempty"`
}

// The kinds of broken links, in the order of a Review.
const (
	KindDocument = "document"        // not a requisite
	KindOwn      = "own-requisite"   // a file that a page embeds, from a site of which the crawl fetched documents
	KindOthers   = "other-requisite" // from another site
)

// A Chain is a chain of redirects. If it ends with a redirect, the target is a URL that the crawl had met before, or
// one outside its scope.
type Chain struct {
	Redirects int    `json:"redirects"`
	Status    int    `json:"status"` // of the last URL
	Hops      []Hop  `json:"hops"`   // from the first URL whose line is known
	Note      string `json:"note,omitempty"`
}

// A Hop is one URL of a Chain.
type Hop struct {
	URL    string `json:"url"`
	Status int    `json:"status"`
}

// A Bar is a range of values of a histogram.
type Bar struct {
	From  int64 `json:"from"`
	To    int64 `json:"to,omitempty"` // exclusive; 0: no end
	Count int64 `json:"count"`
}

// Percentiles describe a distribution. They are exact within 4 %.
type Percentiles struct {
	Count int64 `json:"count"`
	Mean  int64 `json:"mean"`
	P50   int64 `json:"p50"`
	P90   int64 `json:"p90"`
	P95   int64 `json:"p95"`
	P99   int64 `json:"p99"`
	Max   int64 `json:"max"`
}

// A Timeline has the counts of equal spans of time.
type Timeline struct {
	Start  clock.Stamp `json:"start,omitzero"`
	WidthS int64       `json:"width_s"` // of a span
	Spans  []Span      `json:"spans"`
}

// A Span is what the crawls received in a span of time.
type Span struct {
	Pages  int64 `json:"pages"`
	Other  int64 `json:"other"` // responses that are not pages, such as redirects and 404
	Failed int64 `json:"failed"`
	Bytes  int64 `json:"content_bytes"`
}
