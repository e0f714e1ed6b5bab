package review

import (
	"cmp"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// logCounts is what the lines of crawl.log add up to.
type logCounts struct {
	totals    Totals
	timeline  timeline
	hours     dayHours
	latency   histogram
	sizes     histogram
	byLatency *bars
	bySize    *bars
	byDepth   *bars
	hosts     *table[hostCount]
	sites     map[string]struct{} // of which the crawl fetched documents; at most as many as hosts
	status    *table[Count]
	errors    *table[Count]
	mimes     *table[Count]
	topics    *table[Count] // see Review.Categories
	robots    *table[Count]
	copies    *table[Count]
	slowest   top[Visit]
	largest   top[Visit]
	chains    *chains
	limit     int
}

type hostCount struct {
	Host
	ms, timed int64
	documents bool
}

func newLogCounts(limit, names int) *logCounts {
	byCount := func(c *Count) int64 { return c.Count }
	few, some := min(names, 1000), min(names, 10_000)
	return &logCounts{
		limit:     limit,
		byLatency: newBars(0, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000),
		bySize:    newBars(0, 1<<10, 4<<10, 16<<10, 64<<10, 256<<10, 1<<20, 4<<20, 16<<20, 64<<20),
		byDepth:   newBars(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 50, 100),
		hosts:     newTable(names, func(h *hostCount) int64 { return h.Visits }),
		sites:     map[string]struct{}{},
		status:    newTable(few, byCount),
		errors:    newTable(few, byCount),
		mimes:     newTable(few, byCount),
		topics:    newTable(few, byCount),
		robots:    newTable(some, byCount),
		copies:    newTable(some, byCount),
		slowest:   top[Visit]{limit: limit, key: func(v *Visit) int64 { return v.MS }},
		largest:   top[Visit]{limit: limit, key: func(v *Visit) int64 { return v.Bytes }},
		chains:    newChains(limit, some),
	}
}

// Bounds of what a line can say. A line beyond them is damaged: it would stretch the timeline, or spoil the sums.
var earliest = time.Date(1996, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	maxSize = 1 << 50 // bytes
	maxTook = 366 * 24 * time.Hour
)

// sane reports whether l is within the bounds. latest is a time that has not come yet.
func sane(l *report.Line, latest time.Time) bool {
	return !l.Time.Before(earliest) && !l.Time.After(latest) && l.Size <= maxSize && l.Took <= maxTook
}

// readLog reads crawl.log. It adds its broken links to broken if byLog is set.
func (r *reader) readLog(d *Dir, broken *brokenList, byLog bool) error {
	latest := time.Now().Add(24 * time.Hour)
	var failed error
	err := r.eachLine(filepath.Join(d.Path, "logs", "crawl.log"), &d.Damaged, func(line []byte) bool {
		l, err := report.ReadLine(string(line))
		if err != nil || !sane(&l, latest) {
			return false
		}
		if d.first.IsZero() {
			d.first = l.Time
		}
		if l.Time.After(d.AsOf.Time) {
			d.AsOf.Time = l.Time
		}
		link := r.log.add(&l, d)
		if byLog && link != nil && failed == nil {
			failed = broken.add(*link)
		}
		return true
	})
	err = cmp.Or(err, failed)
	if d.Runs == 0 { // no events
		d.lastRun = d.first
	}
	d.end(d.AsOf.Time) // a run that has not ended by itself
	return err
}

// category counts a visit to a page that the archive has. Other lines have no digest: of pages that another agent
// keeps, and of near-duplicates and other pages that the crawl leaves out.
func (c *logCounts) category(l *report.Line) {
	if !l.HasDigest {
		return
	}
	for _, n := range l.Notes {
		if category, ok := strings.CutPrefix(n, "category:"); ok {
			c.count(c.topics, plain(category), max(l.Size, 0), l.URL)
		}
	}
}

// add counts a line. It returns the broken link that the line shows, or nil.
func (c *logCounts) add(l *report.Line, d *Dir) *Broken {
	c.category(l)
	if slices.ContainsFunc(l.Notes, func(n string) bool {
		return strings.HasPrefix(n, "imported:") || n == "shared" || strings.HasPrefix(n, "shared:")
	}) {
		return nil // the fetch has a line of its own
	}
	t := &c.totals
	size := max(l.Size, 0)
	t.Bytes += size
	d.Bytes += size
	if strings.HasSuffix(l.Hops, "P") {
		t.RobotsTxt++
		c.timeline.add(l.Time, func(s *Span) { s.Bytes += size })
		c.hours.add(l.Time, l.Code > 0, false, size)
		return nil
	}
	t.Visits++
	d.Visits++
	var kind, cause, rule string
	copied := false
	for _, n := range l.Notes {
		switch name, value, _ := strings.Cut(n, ":"); name {
		case "error":
			kind = value
		case "cause":
			cause = value
		case "rule":
			rule = value
		case "duplicate":
			copied = true
		case "truncated":
			t.Truncated++
		}
	}
	replaced := l.Replaced()
	if replaced {
		kind = ""
	}
	file := link.IsFile(l.Hops) || l.Sitemap()
	got := l.Code >= 200 && l.Code < 300
	page := got && !file
	c.hours.add(l.Time, l.Code > 0, page, size)
	if l.Guess() && !got { // as in report.Tally
		c.timeline.add(l.Time, func(s *Span) { s.Bytes += size })
		h := c.hosts.row(hostOf(l.URL))
		h.Visits++
		h.Bytes += size
		return nil
	}
	switch {
	case page:
		t.Pages++
		d.Pages++
	case got:
		t.Files++
	}
	if kind != "" {
		t.Failed++
		d.Failed++
		c.count(c.errors, kind, size, cause)
	}
	c.count(c.status, strconv.Itoa(l.Code), size, l.URL)
	c.byDepth.add(int64(len(l.Hops) - strings.Count(l.Hops, "R") - strings.Count(l.Hops, "I")))
	c.timeline.add(l.Time, func(s *Span) {
		s.Bytes += size
		switch {
		case page:
			s.Pages++
		case l.Code > 0:
			s.Other++
		case kind != "":
			s.Failed++
		}
	})
	host := hostOf(l.URL)
	h := c.hosts.row(host)
	h.Visits++
	h.Bytes += size
	requisite := link.IsFile(l.Hops)
	if !requisite && !h.documents && len(c.sites) < c.hosts.limit {
		h.documents, c.sites[weburl.Site(strings.Clone(host))] = true, struct{}{}
	}
	switch {
	case page:
		h.Pages++
	case got:
		h.Files++
	}
	if kind != "" {
		h.Failed++
	}
	if copied {
		t.Duplicates++
		h.Duplicates++
		if l.HasDigest && got {
			c.count(c.copies, string(l.Digest[:]), size, l.URL)
		}
	}
	if l.Code == report.CodeRobotsDenied {
		t.Denied++
		h.Denied++
		c.count(c.robots, host, 0, rule)
	}
	if l.Code > 0 {
		c.response(l, h)
	}
	if !l.Broken() || replaced {
		return nil
	}
	h.Broken++
	b := &Broken{URL: l.URL, Status: l.Code, Error: kind, Kind: c.kind(l.URL, requisite)}
	if l.Via != "" {
		b.Links, b.Pages = 1, []string{l.Via}
	}
	return b
}

// kind returns the kind of a broken link.
func (c *logCounts) kind(url string, requisite bool) string {
	if !requisite {
		return KindDocument
	}
	if _, own := c.sites[weburl.Site(hostOf(url))]; own {
		return KindOwn
	}
	return KindOthers
}

// response counts a line with an HTTP status.
func (c *logCounts) response(l *report.Line, h *hostCount) {
	t := &c.totals
	t.Fetched++
	switch {
	case l.Code == 304:
		t.Unchanged++
	case l.Code >= 300 && l.Code < 400:
		t.Redirected++
	}
	size := max(l.Size, 0)
	c.count(c.mimes, report.MIME(l.MIME), size, l.URL)
	if l.Code < 300 {
		c.sizes.add(size)
		c.bySize.add(size)
	}
	ms := int64(-1)
	if !l.Began.IsZero() {
		ms = l.Took.Milliseconds()
		c.latency.add(ms)
		c.byLatency.add(ms)
		h.timed++
		h.ms += ms
	}
	if c.slowest.wants(ms) || c.largest.wants(size) {
		v := Visit{URL: keep(l.URL), Code: l.Code, Bytes: size, MS: max(ms, 0), MIME: keep(report.MIME(l.MIME))}
		if ms >= 0 {
			c.slowest.add(v)
		}
		c.largest.add(v)
	}
	c.chains.add(l)
}

func (c *logCounts) count(t *table[Count], name string, size int64, example string) {
	v := t.row(name)
	v.Count++
	v.Bytes += size
	if v.Example == "" {
		v.Example = keep(example)
	}
}

// hostOf returns the host name of a URL. For a URL without one, it returns "-".
func hostOf(u string) string {
	_, rest, ok := strings.Cut(u, "://")
	if !ok {
		return "-"
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.HasSuffix(rest, "]") {
		rest = rest[:i]
	}
	if rest == "" || len(rest) > 300 {
		return "-"
	}
	return rest
}

// into writes the counts into a Review.
func (c *logCounts) into(r *Review) {
	damaged, seconds, known := r.Damaged, r.Seconds, r.BrokenKnown
	r.Totals = c.totals
	r.Damaged, r.Seconds, r.BrokenKnown = damaged, seconds, known
	r.HostCount, r.AtLeast = len(c.hosts.rows), c.hosts.full
	if c.hosts.full {
		known := 0
		for _, d := range r.Dirs {
			if d.Summary != nil {
				known += d.Summary.Hosts
			}
		}
		r.HostCount = max(c.hosts.limit, known)
	}
	for _, t := range []int64{c.hosts.lost, c.robots.lost, c.copies.lost, c.mimes.lost, c.errors.lost, c.topics.lost} {
		r.LeastCount = max(r.LeastCount, t)
	}
	r.Status, r.Errors, r.MIME = counts(c.status, 1000), counts(c.errors, 1000), counts(c.mimes, 1000)
	r.Categories = counts(c.topics, 1000)
	r.RobotsBy = counts(c.robots, c.limit)
	for i := range r.Errors {
		r.Errors[i].Example = plain(r.Errors[i].Example)
	}
	for i := range r.RobotsBy {
		r.RobotsBy[i].Example = plain(r.RobotsBy[i].Example)
	}
	r.Copies = counts(c.copies, c.limit)
	for i, n := range r.Copies {
		r.Copies[i].Name = digestText(n.Name)
	}
	r.Hosts = []Host{}
	for _, name := range c.hosts.names()[:min(len(c.hosts.rows), c.limit)] {
		h := c.hosts.rows[name]
		h.Host.Host = name
		if h.timed > 0 {
			h.MeanMS = h.ms / h.timed
		}
		r.Hosts = append(r.Hosts, h.Host)
	}
	r.Slowest, r.Largest = slices.Clip(c.slowest.list), slices.Clip(c.largest.list)
	r.Chains = slices.Clip(c.chains.top.list)
	r.Latency, r.Sizes = c.latency.percentiles(), c.sizes.percentiles()
	r.Histograms = Histograms{c.byLatency.list(), c.bySize.list(), c.byDepth.list(), c.chains.bars()}
	r.ByHour, r.Speed = c.hours.list(), c.timeline.list()
}

// plain undoes the percent-encoding of an annotation.
func plain(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}
