package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A Visit is one finished visit, as the reports count it.
type Visit struct {
	Host      string
	Seed      string        // source tag
	Code      int           // HTTP status or a negative code
	MIME      string        // Content-Type as the server sent it
	Error     string        // kind of error; empty: none
	Cause     string        // text of the error; may be empty
	Bytes     int64         // received
	Took      time.Duration // until the whole response was there; zero: no request was sent
	Page      bool          // a successful fetch of a page
	File      bool          // a successful fetch of what a page embeds, or of a sitemap
	Guess     bool          // the URL is a guess: unless File is set, only the URL and the bytes count
	FromSeed  bool          // the URL is a seed, or a seed redirects to it
	Robots    bool          // a robots.txt: not counted among the URLs of the crawl
	Duplicate bool          // the payload equals an earlier one
	Earlier   bool          // and that is in the archive of an earlier crawl
	Truncated bool
	Again     bool // a revisit: the URL is already counted, so only the visit counts
	Unchanged bool // a revisit that found the same page
	Unknown   bool // a revisit that cannot tell whether the page changed
	Unkept    bool // the archive did not get the response, because --keep leaves it out
	Exported  bool // the page went to the agent where it belongs
	Shared    bool // the response came from the archive: counted as a finished URL only
	Near      bool // the page is a near-duplicate of an archived one
	Refetched bool // the page was in a lost archive, and is fetched again
	Imported  bool // another agent has fetched the page: not counted among the URLs and pages of this one
}

// Servers choose some names, so the Tally counts under a limited number of them.
const (
	maxNames   = 1000
	maxName    = 100 // bytes
	otherNames = "other"
)

// A Tally counts visits. The zero Tally is empty. It is not safe for concurrent use; one goroutine owns it.
type Tally struct {
	n       totals
	hosts   names[hostCount]
	seeds   names[count]
	mimes   map[string]*count
	status  map[int]int64
	errors  map[string]int64
	causes  map[string]string // by kind of error: the text of the first such error
	skipped map[string]int64
	started time.Time
}

// totals are encoded in the order of the method all.
type totals struct {
	pages, fetched, finished, bytes int64
	duplicates, denied, truncated   int64
	robots, robotsBytes             int64
	found, unique, sent, retried    int64
	revisits, unchanged, changed    int64
	unkept                          int64
	exported, exportedBytes         int64
	imported, importedBytes         int64
	near, refetched                 int64
	files, seedPages, earlier       int64 // encoded last
}

func (n *totals) all() []*int64 {
	return []*int64{
		&n.pages, &n.fetched, &n.finished, &n.bytes,
		&n.duplicates, &n.denied, &n.truncated,
		&n.robots, &n.robotsBytes,
		&n.found, &n.unique, &n.sent, &n.retried,
		&n.revisits, &n.unchanged, &n.changed,
		&n.unkept,
		&n.exported, &n.exportedBytes, &n.imported, &n.importedBytes, &n.near, &n.refetched,
	}
}

type count struct{ pages, urls, bytes int64 }

// A hostCount is small, because there are many.
type hostCount struct {
	pages, urls, errors, denied, duplicates, files uint32
	bytes                                          uint32 // the lower 32 bits; an int64 would need padding
	bytesHigh, robots                              uint16 // the higher ones; fetches of robots.txt, at most 65,535
	latency                                        uint32 // mean of the last responses, in µs; not encoded
}

// took adds the time of a response to the latency. Each response counts a quarter, the one before a quarter of
// the rest.
func (h *hostCount) took(d time.Duration) {
	us := min(max(d.Microseconds(), 1), math.MaxUint32)
	if h.latency > 0 {
		us = int64(h.latency) + (us-int64(h.latency))/4
	}
	h.latency = uint32(us)
}

func (h *hostCount) size() int64 { return int64(h.bytes) | int64(h.bytesHigh)<<32 }

// setSize keeps sizes below 281 TB.
func (h *hostCount) setSize(n int64) {
	n = min(n, 1<<48-1)
	h.bytes, h.bytesHigh = uint32(n), uint16(n>>32)
}

// numbers returns the counts in the order of their encoding.
func (h *hostCount) numbers() [7]int64 {
	return [7]int64{
		int64(h.pages), int64(h.urls), h.size(), int64(h.robots), int64(h.errors), int64(h.denied), int64(h.duplicates),
	}
}

func (h *hostCount) set(n [7]int64) {
	u := func(n int64) uint32 { return uint32(min(n, math.MaxUint32)) }
	*h = hostCount{latency: h.latency,
		pages: u(n[0]), urls: u(n[1]), robots: uint16(min(n[3], math.MaxUint16)),
		errors: u(n[4]), denied: u(n[5]), duplicates: u(n[6]),
	}
	h.setSize(n[2])
}

// NewTally returns an empty Tally.
func NewTally() *Tally { return &Tally{} }

// findOrAdd returns m's entry for k and adds it if needed. If m has `full` entries, a new k counts under otherNames.
func findOrAdd[V any](m *map[string]*V, k string, full int) *V {
	if *m == nil {
		*m = make(map[string]*V)
	}
	v := (*m)[k]
	if v == nil {
		if full > 0 && len(*m) >= full && k != otherNames {
			return findOrAdd(m, otherNames, 0)
		}
		v = new(V)
		(*m)[strings.Clone(k)] = v
	}
	return v
}

func increment(m *map[string]int64, k string, n int64) {
	if *m == nil {
		*m = make(map[string]int64)
	}
	if _, ok := (*m)[k]; !ok && len(*m) >= maxNames {
		k = otherNames
	}
	if len(k) > maxName {
		k = k[:maxName]
	}
	(*m)[k] += n
}

// Add counts a visit.
func (t *Tally) Add(v Visit) {
	v.Bytes = max(v.Bytes, 0)
	if v.Imported {
		t.n.imported++
		t.n.importedBytes += v.Bytes
		if v.Duplicate {
			t.n.duplicates++
		}
		if v.Earlier {
			t.n.earlier++
		}
		if v.Near {
			t.n.near++
		}
		return
	}
	if v.Exported {
		t.n.exported++
		t.n.exportedBytes += v.Bytes
	}
	t.n.bytes += v.Bytes
	h := t.hosts.findOrAdd(v.Host)
	h.setSize(h.size() + v.Bytes)
	if v.Code > 0 && v.Took > 0 {
		h.took(v.Took)
	}
	if v.Robots {
		t.n.robots++
		t.n.robotsBytes += v.Bytes
		h.robots += min(1, math.MaxUint16-h.robots)
		return
	}
	first := int64(1)
	if v.Shared || v.Guess && !v.File {
		t.n.finished++
		h.urls++
		t.seeds.findOrAdd(v.Seed).urls++
		return
	}
	if v.Again {
		first = 0
		t.n.revisits++
		switch {
		case v.Unchanged:
			t.n.unchanged++
		case v.Unknown:
		case v.Code > 0 && v.Code < 500 && v.Code != 429: // other codes say nothing about the page
			t.n.changed++
		}
	}
	t.n.finished += first
	h.urls += uint32(first)
	if t.status == nil {
		t.status = make(map[int]int64)
	}
	if _, ok := t.status[v.Code]; ok || len(t.status) < maxNames {
		t.status[v.Code]++
	} else {
		t.status[CodeUnattempted]++
	}
	s := t.seeds.findOrAdd(v.Seed)
	s.urls += first
	s.bytes += v.Bytes
	if v.Code > 0 {
		t.n.fetched++
		m := findOrAdd(&t.mimes, MIME(v.MIME), maxNames)
		m.urls += first
		m.bytes += v.Bytes
		if v.Page {
			m.pages += first
		}
	}
	if v.Page {
		t.n.pages++
		h.pages += uint32(first)
		s.pages += first
	}
	if v.File {
		t.n.files++
		h.files += uint32(first)
	}
	if v.Page && v.FromSeed {
		t.n.seedPages++
	}
	if v.Near {
		t.n.near++
	}
	if v.Refetched && (v.Page || v.File) {
		t.n.refetched++
	}
	if v.Unkept {
		t.n.unkept++
	}
	if v.Duplicate {
		t.n.duplicates++
		h.duplicates++
	}
	if v.Earlier {
		t.n.earlier++
	}
	if v.Truncated {
		t.n.truncated++
	}
	if v.Code == CodeRobotsDenied {
		t.n.denied++
		h.denied++
	}
	if v.Error != "" {
		increment(&t.errors, v.Error, 1)
		if _, ok := t.causes[v.Error]; !ok && v.Cause != "" && t.errors[v.Error] > 0 {
			if t.causes == nil {
				t.causes = make(map[string]string)
			}
			t.causes[strings.Clone(v.Error)] = strings.Clone(v.Cause)
		}
		h.errors++
	}
}

// Found counts n links found on pages, before any check.
func (t *Tally) Found(n int64) { t.n.found += n }

// Accepted counts n URLs that are new and in scope.
func (t *Tally) Accepted(n int64) { t.n.unique += n }

// Unique returns the number of accepted URLs.
func (t *Tally) Unique() int64 { return t.n.unique }

// Sent counts n URLs that were handed to other agents.
func (t *Tally) Sent(n int64) { t.n.sent += n }

// SentTotal returns the number of URLs that were handed to other agents.
func (t *Tally) SentTotal() int64 { return t.n.sent }

// Revisits returns the number of visits to URLs visited before.
func (t *Tally) Revisits() int64 { return t.n.revisits }

// Unchanged returns the number of revisits that found the same page.
func (t *Tally) Unchanged() int64 { return t.n.unchanged }

// Retried counts n visits that failed and are repeated later.
func (t *Tally) Retried(n int64) { t.n.retried += n }

// maxRules bounds the reasons with a prefix of the section hosts:, so that no reason counts under otherNames.
const maxRules = maxNames / 2

// Skipped counts a URL that was not accepted. ReasonBy adds to the reason which prefix in hosts: decided.
func (t *Tally) Skipped(reason string) {
	if _, ok := t.skipped[reason]; !ok && len(t.skipped) >= maxRules {
		reason, _ = SplitReason(reason)
	}
	increment(&t.skipped, reason, 1)
}

// skippedBy returns how often a URL was not accepted, by reason; and the part that a prefix in hosts: decided.
func (t *Tally) skippedBy() (all map[string]int64, rules map[string]map[string]int64) {
	all = make(map[string]int64)
	for k, n := range t.skipped {
		reason, rule := SplitReason(k)
		if all[reason] += n; rule == "" {
			continue
		}
		if rules == nil {
			rules = make(map[string]map[string]int64)
		}
		if rules[reason] == nil {
			rules[reason] = make(map[string]int64)
		}
		rules[reason][rule] += n
	}
	return all, rules
}

// Start sets the time at which the crawl began.
func (t *Tally) Start(at time.Time) { t.started = at }

// Started returns the time at which the crawl began.
func (t *Tally) Started() time.Time { return t.started }

// Unkept returns the number of responses that the archive did not get, because --keep leaves them out.
func (t *Tally) Unkept() int64 { return t.n.unkept }

// Pages returns the number of successful fetches of pages.
func (t *Tally) Pages() int64 { return t.n.pages }

// SeedPages returns the number of successful fetches of seeds and of the targets of their redirects.
func (t *Tally) SeedPages() int64 { return t.n.seedPages }

// Files returns the number of successful fetches of what pages embed, and of sitemaps.
func (t *Tally) Files() int64 { return t.n.files }

// Fetched returns the number of HTTP responses, without those to robots.txt requests.
func (t *Tally) Fetched() int64 { return t.n.fetched }

// Answered returns the number of HTTP responses other than redirects, without those to robots.txt requests.
func (t *Tally) Answered() int64 {
	n := t.n.fetched
	for _, code := range [...]int{301, 302, 303, 307, 308} {
		n -= t.status[code]
	}
	return n
}

// TakeBack removes an accepted and finished URL from the counts of URLs, because it will be accepted again. The counts
// of visits and errors stay. host is the URL's host and tag its source tag. seed means that the URL is a seed.
func (t *Tally) TakeBack(host, tag string, seed bool) {
	t.n.unique--
	t.n.finished--
	if seed {
		t.n.found--
	}
	if h := t.hosts.findOrAdd(host); h.urls > 0 {
		h.urls--
	}
	t.seeds.findOrAdd(tag).urls--
}

// Finished returns the number of URLs that are done, with any result.
func (t *Tally) Finished() int64 { return t.n.finished }

// Bytes returns the number of received bytes, including robots.txt.
func (t *Tally) Bytes() int64 { return t.n.bytes }

// Denied returns the number of URLs that robots.txt forbids.
func (t *Tally) Denied() int64 { return t.n.denied }

// Near returns the number of pages that are near-duplicates of an archived one.
func (t *Tally) Near() int64 { return t.n.near }

// Earlier returns the number of responses whose payload is in the archive of an earlier crawl. Duplicates counts them,
// too.
func (t *Tally) Earlier() int64 { return t.n.earlier }

// Duplicates returns the number of responses whose payload equals an earlier one.
func (t *Tally) Duplicates() int64 { return t.n.duplicates }

// SkippedBy returns a copy of how often a URL was not accepted, by reason.
func (t *Tally) SkippedBy() map[string]int64 {
	all, _ := t.skippedBy()
	return all
}

// Errors returns a copy of the error counts by kind.
func (t *Tally) Errors() map[string]int64 {
	if t.errors == nil {
		return map[string]int64{}
	}
	return maps.Clone(t.errors)
}

// descending returns the keys of m, sorted by descending count and then by name.
func descending[K cmp.Ordered, V any](m map[K]V, n func(V) int64) []K {
	keys := slices.Collect(maps.Keys(m))
	slices.SortFunc(keys, func(a, b K) int {
		return cmp.Or(cmp.Compare(n(m[b]), n(m[a])), cmp.Compare(a, b))
	})
	return keys
}
