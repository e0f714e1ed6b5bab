package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/dns"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/near/index"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A visit is one attempt at one URL. The dispatcher makes it, one worker fills it, and the
// dispatcher settles and reuses it.
type visit struct {
	task    frontier.Task
	asked   link.Link // the request: task.Link, or a robots.txt for it
	thread  int
	worker  *worker // the worker that makes the visit
	drops   uint64  // number of the last drop when the visit was taken
	last    bool    // the host or the origin is in trouble: no retries
	untried bool    // the origin has failed too often: the URL fails without a request
	plain   bool    // no https connection: the http URL is accepted instead
	outcome Outcome
	err     error   // a failure of this machine
	permit  *Permit // nil: the visit uses no lease
	// within bounds the time to connect; 0: as for all. hostLives says that pages of the host were fetched.
	within    time.Duration
	hostLives bool
	turn      rate.Turn

	// The look-up:
	resolved   bool
	addr       netip.Addr
	expires    time.Time
	noSuchHost bool

	// The exchange:
	status     int
	fail       *fetch.Failure
	failure    fetch.Kind // 0: none
	mime       string
	size       int64 // bytes received, with the header
	content    int64 // bytes received, without the header
	truncated  string
	began      time.Time
	sentAt     time.Time // of the request; zero: it was not sent
	took       time.Duration
	retryAfter time.Duration
	slow       bool   // the server asked for fewer requests: 429, 503
	cookies    uint64 // a hash of those that the request had
	notes      []string
	detail     string
	written    warc.Written
	archived   bool
	unkept     bool            // the archive does not get the response
	judged     bool            // Contents has answered
	duplicate  bool            // another page had the content first
	first      warc.Original   // that page
	near       *index.Original // the page of which this one is a near-duplicate
	claim      *index.Claim    // others may become near-duplicates of this page
	meta       []warc.Field
	app        *Application // to which the URL belongs; nil: the crawl itself
	appLinks   appLinks     // of the links on its page
	elsewhere  bool         // another agent had the host before
	shared     bool         // the response is from the archive
	archivedAt time.Time    // when that was fetched
	page       parse.Page
	decoded    bool      // shown has the body
	parsed     bool      // page has its links
	sent       link.Link // the page, which is stored for another agent; zero: it belongs here
	category   uint16    // links go to the agents of this category of pages; 0: by their hosts
	topic      string    // the name of the page's category; empty: none is known

	// For Strategy and Pages:
	shown      Page
	stops      bool      // Pages has stopped the run
	link       link.Link // the link of the page that the Strategy judges
	before     *Before   // for a URL that is fetched again
	offered    []link.Link
	print      uint64
	cut        bool // use the archive's digest as print
	validators fetch.Condition
	modified   time.Time

	// robots.txt:
	rule    string
	delay   time.Duration  // Crawl-delay
	auto    time.Duration  // the delay by the response times, see autoDelay
	until   time.Time      // next time to fetch it
	errand  link.Link      // a robots.txt to fetch from another host
	entries []robots.Entry // of the origin of the URL, and of that of the robots.txt

	Links                  // of the page
	inHost   inHost        // depths of the links that stay in the host
	links    int           // number of references on the page, before any check
	outLinks linklog.Links // for the link log
}

func (v *visit) reset(t frontier.Task) {
	*v = visit{task: t, asked: t.Link, Links: Links{v.found[:0], v.enc[:0], v.skipped[:0]}, notes: v.notes[:0],
		meta: v.meta[:0], page: v.page, outLinks: v.outLinks}
	v.outLinks.Reset(false)
}

// visit makes one visit: robots.txt, fetch, archive, parse, scope. A failure of the web is
// recorded in v; an error is a failure of this machine.
func (c *Crawler) visit(ctx context.Context, v *visit) error {
	l, run := v.task.Link, ctx
	v.inHost.on = c.Scope.BoundsHostDepth()
	ctx, end := v.permit.begin(ctx)
	defer end()
	if IsErrand(l) {
		about, err := weburl.Parse(l.Via)
		if err != nil {
			return fmt.Errorf("robots.txt errand for %q: %w", l.Via, err)
		}
		err = c.fetchRobots(ctx, v, about, l.URL)
		c.letGo(l.URL.Host()) // the next agent that contacts the host may be another one
		return err
	}
	if !c.beginApp(v) {
		v.outcome = Dropped
		return nil
	}
	c.heedRobots(v)
	a := c.Robots.Ask(l.URL, c.cfg.Now())
	v.delay = a.Delay
	switch a.Verdict {
	case robots.Denied:
		c.followRoot(v)
		v.outcome, v.rule = Denied, a.Rule
		return nil
	case robots.Unreachable:
		v.outcome, v.until = RobotsUnreachable, a.Until
		return nil
	case robots.Fetch:
		return c.fetchRobots(ctx, v, l.URL, a.Fetch)
	}
	c.followRoot(v)
	if c.shares(v) {
		if done, err := c.share(ctx, run, v); done || err != nil {
			return err
		}
	}
	req := fetch.Request{URL: l.URL, Addr: v.task.Addr}
	if v.before != nil {
		req.If = v.before.If
	}
	resp, err := c.fetch(ctx, v, req)
	if err != nil {
		return c.failed(ctx, v, err)
	}
	defer resp.Release()
	v.take(resp, Fetched)
	if v.outcome == Stale || !c.final(v) {
		return nil
	}
	if err := v.typed(c, resp); err != nil {
		return err
	}
	if v.unkept, err = c.leaves(v, resp); err != nil {
		return err
	}
	if away, err := c.export(ctx, v, resp); away || err != nil {
		return err
	}
	if err := c.compare(ctx, v, resp); err != nil {
		return err
	}
	if resp.Failure == nil {
		if err := c.read(ctx, v, resp); err != nil {
			return err
		}
	}
	if err := c.keep(v, resp); err != nil {
		return err
	}
	c.handOn(run, v, resp)
	return nil
}

// failed handles an error of Fetch. The end of the run is an outcome; all other errors are
// failures of this machine.
func (c *Crawler) failed(ctx context.Context, v *visit, err error) error {
	if ctx.Err() != nil || errors.Is(err, rate.ErrHeld) {
		v.outcome = Abandoned
		return nil
	}
	return fmt.Errorf("fetch %s: %w", v.task.Link.URL, err)
}

// take records the response in v.
func (v *visit) take(r *fetch.Response, o Outcome) {
	v.outcome, v.status = o, r.Status
	v.began, v.sentAt, v.took = r.Began, r.Sent, r.Duration
	v.size, v.truncated = r.Wire.Size(), r.Truncated
	v.content = v.size - int64(r.HeadLen)
	if r.Note != "" {
		v.notes = append(v.notes, strings.Split(r.Note, ",")...)
	}
	if r.Truncated != "" {
		v.notes = append(v.notes, "truncated:"+r.Truncated)
	}
	if f := r.Failure; f != nil {
		switch {
		case r.Stale:
			v.outcome = Stale
		case o == Fetched:
			v.outcome = Failed
		}
		v.fail, v.failure, v.detail = f, f.Kind, f.Error()
		return
	}
	t, _ := r.Header.Type()
	v.mime = t.Essence
	v.slow = r.Status == 429 || r.Status == 503
	if d, ok := fetch.RetryAfter(r.Header, r.Began.Add(r.Duration)); ok && (v.slow || r.Status/100 == 3) {
		v.retryAfter = d
	}
}

// read finds the links of a response: the target of its redirect, or the links on its page.
func (c *Crawler) read(ctx context.Context, v *visit, r *fetch.Response) error {
	l := v.task.Link
	if c.Strategy != nil || c.Pages != nil {
		v.shown.Link, v.shown.Status, v.shown.Header, v.shown.MIME = l, r.Status, r.Header, v.mime
	}
	if c.planner != nil && r.Status/100 != 2 {
		v.fingerprint(r, nil, false)
	}
	if to, ok := fetch.Redirect(r); ok {
		v.links = 1
		u, err := l.URL.Resolve(to)
		c.linksTo(v, u)
		switch {
		case err != nil:
			v.notes = append(v.notes, "bad-redirect")
		case trailing(l.Hops, 'R') >= c.cfg.MaxRedirects:
			v.notes = append(v.notes, "too-many-redirects")
			v.skipped = append(v.skipped, skip{child(l, u, 'R'), "tooManyRedirects"})
		default:
			next := child(l, u, 'R')
			next.Ext = v.extTo(u, 'R')
			v.comesBack(c, &next)
			c.follow(v, next, next.Key())
		}
		return nil
	}
	if r.Status/100 != 2 {
		return nil // an error page's links belong to the server, not to its content
	}
	if v.duplicate && c.planner == nil && c.Pages == nil {
		return nil // the first page's links were followed
	}
	if v.lists() && c.LinkLog == nil {
		return nil
	}
	if err := c.decode(v, r); err != nil {
		return err
	}
	if c.planner != nil {
		v.fingerprint(r, v.shown.Body, v.shown.Cut)
	}
	if v.duplicate || v.followedElsewhere() {
		return nil
	}
	c.parse(v, r)
	v.shown.Parsed = &v.page
	if v.app == nil && !v.shared {
		if err := c.resemble(ctx, v, v.shown.Body, v.shown.Cut); err != nil {
			return err
		}
	}
	if c.omits(v) {
		return nil // the other page's links were followed
	}
	c.linksOf(v)
	v.links = len(v.page.Links) + v.page.Withheld
	if v.page.Dropped > 0 {
		v.notes = append(v.notes, "links-dropped:"+strconv.Itoa(v.page.Dropped))
	}
	if isRefetch(l) || v.lists() {
		return nil // its links were followed, or the application is given its URLs
	}
	var hops ['Z' + 1]string // one path for each letter, shared by the page's links
	for i := range v.page.Links {
		out := &v.page.Links[i]
		follow := !out.NoFollow || out.Hop != 'L'
		if follow && (c.Strategy == nil || v.app != nil) && c.isKnown(v, out.Key) {
			continue
		}
		h := out.Hop % byte(len(hops))
		if hops[h] == "" {
			hops[h] = l.Hops + string(rune(out.Hop))
		}
		to := link.Link{URL: out.URL, Via: l.URL.String(), Hops: hops[h], Seed: l.Seed, Ext: v.extTo(out.URL, h)}
		if !follow {
			v.skipped = append(v.skipped, skip{to, "nofollow"})
			continue
		}
		c.follow(v, to, out.Key)
	}
	return nil
}

// typed finds the media type of a page whose header does not tell it for sure.
func (v *visit) typed(c *Crawler, r *fetch.Response) error {
	if _, sure := r.Header.Type(); sure || r.Failure != nil || r.Status/100 != 2 {
		return nil
	}
	if err := c.decode(v, r); err != nil {
		return err
	}
	v.mime = r.Header.TypeOf(v.shown.Body).Essence
	return nil
}

// decode decodes the body of a page, once.
func (c *Crawler) decode(v *visit, r *fetch.Response) error {
	if v.decoded {
		return nil
	}
	limit := c.cfg.MaxDecoded
	if v.isSitemap() {
		limit = max(limit, sitemapMax)
	}
	body, cut, err := r.Decode(limit)
	switch {
	case errors.Is(err, fetch.ErrCoding):
		v.notes = append(v.notes, "bad-encoding") // the decoded part is used
	case err != nil:
		return fmt.Errorf("decode %s: %w", v.asked.URL, err)
	}
	if cut {
		v.notes = append(v.notes, "links-cut")
	}
	v.decoded, v.shown.Body, v.shown.Cut = true, body, cut
	return nil
}

// parse parses a decoded page, once.
func (c *Crawler) parse(v *visit, r *fetch.Response) {
	if v.parsed {
		return
	}
	v.parsed = true
	parse.Parse(parse.Input{
		URL:     v.task.Link.URL,
		Header:  r.Header,
		Body:    v.shown.Body,
		Sitemap: v.isSitemap(),
	}, parse.Options{
		Requisites: c.cfg.Requisites, Agent: c.cfg.Agent, Texts: c.LinkLog != nil || c.reader != nil,
	}, &v.page)
	v.shown.Directives = v.page.Directives
}

// isSitemap reports that the URL was found as a sitemap.
func (v *visit) isSitemap() bool { return strings.HasSuffix(v.task.Link.Hops, "M") }

// sitemapMax bounds the size of a sitemap in bytes (sitemaps.org: 50 MB).
const sitemapMax = 50 << 20

// judge checks a link against the scope, and adds or skips it. Safe for concurrent use.
func (c *Crawler) judge(ls *Links, l link.Link, k link.Key) {
	if l.Ext != "" {
		if app := l.App(); app != "" {
			c.judgeApp(ls, l, k, app)
			return
		}
	}
	if d := c.Scope.Judge(l); !d.In {
		ls.Skip(l, report.ReasonBy(string(d.Reason), d.Rule))
		return
	}
	_, directed := l.Destination()
	ls.add(l, k, directed || c.notOurs(l.URL))
}

// keep writes an exchange to the archive.
func (c *Crawler) keep(v *visit, r *fetch.Response) error {
	l := v.asked
	if r.Wire.Size() == 0 {
		return nil // nothing was received; the log says why
	}
	x := exchangeOf(l, r)
	if v.unkept {
		return v.leave(&x)
	}
	v.describe(&x, r)
	if v.confirmed() && v.before.Original.URL != "" {
		x.NotModified = &v.before.Original
	}
	if c.omits(v) {
		x.Request, x.Response = nil, nil // only the metadata record remains
	}
	if x.Own = v.judged; v.duplicate {
		x.Same = &v.first
	}
	w, err := c.Archive.Write(&x)
	if err != nil {
		return err // the error names the URL
	}
	v.written, v.archived = w, true
	if v.cut {
		v.print = printOf(200, w.BodyDigest[:])
	}
	switch {
	case v.duplicate:
		v.notes = append(v.notes, "duplicate:content")
	case w.Revisit:
		v.notes = append(v.notes, "duplicate:digest")
	case x.NotModified != nil:
		v.notes = append(v.notes, "warcRevisit:notModified")
	}
	return nil
}

// describe sets the content of the metadata record.
func (v *visit) describe(x *warc.Exchange, r *fetch.Response) {
	v.meta = v.meta[:0]
	note := func(name, value string) {
		if value != "" {
			v.meta = append(v.meta, warc.Field{Name: name, Value: value})
		}
	}
	note("fetchTimeMs", strconv.FormatInt(r.Duration.Milliseconds(), 10))
	note("via", v.asked.Via)
	note("hopsFromSeed", v.asked.Hops)
	note("sourceTag", v.asked.Seed)
	if v.outcome == Fetched && v.status/100 == 2 && !v.duplicate {
		note("charset", v.page.Charset)
	}
	note("robots", v.shown.Directives.String())
	note("category", v.topic)
	v.describeNear(note)
	if v.failure != 0 {
		note("failure", v.detail)
	}
	x.Metadata = v.meta
}

// compare looks up whether another agent's page has the content of r. A page that is fetched again is archived in full.
func (c *Crawler) compare(ctx context.Context, v *visit, r *fetch.Response) (err error) {
	if v.failure != 0 || r.Status/100 != 2 || v.unkept || v.app != nil {
		return nil
	}
	x := exchangeOf(v.asked, r)
	v.first, v.duplicate, v.judged, err = c.cluster.First(ctx, &x, r.Wire.Size()-int64(r.HeadLen))
	if isRefetch(v.task.Link) { // the first page may be in a lost archive
		v.first, v.duplicate = warc.Original{}, false
	}
	return err
}

// notOurs reports whether u belongs to another agent, or has no known owner yet. Safe for
// concurrent use.
func (c *Crawler) notOurs(u weburl.URL) bool {
	_, mine := c.cluster.Owner(u.Host())
	return !mine
}

// exchangeOf returns what the archive stores of a response to l.
func exchangeOf(l link.Link, r *fetch.Response) warc.Exchange {
	return warc.Exchange{
		URL: l.URL.String(), Addr: r.Addr.Addr(), Began: r.Began, Request: r.Request,
		Response: r.Wire, HTTP: r.Failure == nil, HeadLen: r.HeadLen, Truncated: r.Truncated,
	}
}

// fetchRobots fetches the robots.txt of about, or the target of its redirects. If the target is
// on another host, it becomes an errand: a fetch in the other host's queue, with that host's
// politeness.
func (c *Crawler) fetchRobots(ctx context.Context, v *visit, about, from weburl.URL) error {
	l := v.task.Link
	v.app = nil // the sitemaps are for the crawl itself
	if from.Host() != l.URL.Host() {
		v.outcome = Elsewhere
		v.errand = link.Link{URL: from, Via: about.String(), Hops: errandHops, Seed: l.Seed}
		return nil
	}
	e, read := c.Robots.Entry(about.Origin())
	if (!read || e.Class == robots.ClassUnreachable) && v.hostLives && v.within == 0 {
		v.within = besideConnect // another origin of the host must not wait for long
	}
	v.turn.Robots = true
	resp, err := c.fetch(ctx, v, fetch.Request{URL: from, Addr: v.task.Addr, MaxBody: RobotsBody})
	v.turn.Robots = false
	if err != nil {
		return c.failed(ctx, v, err)
	}
	defer resp.Release()
	v.take(resp, Prerequisite)
	if v.proxyDown() {
		v.outcome = Failed // the robots cache learns nothing
		return nil
	}
	if v.outcome == Stale {
		return nil
	}
	reply, why, err := RobotsReply(resp)
	if err != nil {
		return fmt.Errorf("decode %s: %w", from, err)
	}
	if why != "" {
		v.detail = why
		v.notes = append(v.notes, "not-whole")
	}
	sitemaps := c.Robots.Learn(about, from, reply, c.cfg.Now())
	for _, origin := range slices.Compact([]string{about.Origin(), from.Origin()}) {
		if e, ok := c.Robots.Entry(origin); ok {
			v.entries = append(v.entries, e)
		}
	}
	// The delay is the one that the contacted host demands.
	v.delay = c.Robots.Ask(from, c.cfg.Now()).Delay
	if !IsErrand(l) {
		v.delay = max(v.delay, c.Robots.Ask(about, c.cfg.Now()).Delay)
	}
	if c.cfg.Sitemaps {
		if c.Strategy != nil {
			v.shown = Page{Link: link.Link{URL: from, Via: about.String(), Hops: l.Hops + "P", Seed: l.Seed},
				Status: resp.Status, Header: resp.Header, MIME: v.mime}
		}
		v.links = len(sitemaps)
		for _, s := range sitemaps {
			if u, err := weburl.Parse(s); err == nil {
				to := link.Link{URL: u, Via: from.String(), Hops: l.Hops + "M", Seed: l.Seed, Ext: v.extTo(u, 'M')}
				c.follow(v, to, link.KeyOf(u))
			}
		}
	}
	v.asked = link.Link{URL: from, Via: about.String(), Hops: l.Hops, Seed: l.Seed}
	if v.unkept, err = c.leaves(v, resp); err != nil {
		return err
	}
	if !IsErrand(l) {
		v.asked.Hops += "P"
	}
	return c.keep(v, resp)
}

// letGo closes the idle connection to a host that another agent now crawls.
func (c *Crawler) letGo(host string) {
	if f, ok := c.Fetch.(interface{ LetGo(host string) }); ok {
		f.LetGo(host)
	}
}

// errandHops marks the Link of a robots.txt that is fetched for another host. The journal never
// has such a Link: after a restart the robots cache asks again.
const errandHops = "P"

// IsErrand reports whether l is the fetch of a robots.txt for another host. Only the loop makes such a link.
func IsErrand(l link.Link) bool { return l.Hops == errandHops }

// child returns the link from a page at l to u.
func child(l link.Link, u weburl.URL, hop byte) link.Link {
	return link.Link{URL: u, Via: l.URL.String(), Hops: l.Hops + string(rune(hop)), Seed: l.Seed}
}

// trailing counts the bytes b at the end of s.
func trailing(s string, b byte) int {
	n := 0
	for n < len(s) && s[len(s)-1-n] == b {
		n++
	}
	return n
}

func isNotFound(err error) bool { return errors.Is(err, dns.ErrNotFound) }
