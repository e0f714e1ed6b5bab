package crawl

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// If the agents of a cluster divide pages by content, a fetched page may belong to another agent. X4, a
// topic-partitioned crawler (paper, section 1), calls it a boundary page.
//
//	fetch -> export: stored for the other agent -> finish, and the page as a link with a number, in one batch
//	import: read, archived, its links taken in as if this agent had fetched it -> a finish without a number
//
// The agent that fetched the URL knows it as finished, and counts the page. The other agent archives the page, looks
// for duplicates and follows its links. If a Planner wants the URL again, the agent that fetched it does so. A new
// version goes to where it belongs by then. Of an unchanged page the visiting agent archives a revisit record, which
// refers to the record of the other agent.
//
// In another form (section 7) the page stays where it was fetched, and its links alone travel. The agents of the
// page's category divide them by their hosts:
//
//	fetch -> archived -> finish, and the links with their destinations, in one batch

// export stores the page of a response for the agent where it belongs, if that is another one. away reports that. If
// links alone travel, it tells the page's category.
func (c *Crawler) export(ctx context.Context, v *visit, r *fetch.Response) (away bool, err error) {
	if v.failure != 0 || r.Status/100 != 2 || v.unkept || v.app != nil {
		return false, nil
	}
	x := exchangeOf(v.asked, r)
	v.describe(&x, r)
	fingerprint := func() error {
		if err := c.decode(v, r); err != nil {
			return err
		}
		v.fingerprint(r, v.shown.Body, v.shown.Cut)
		return nil
	}
	if v.isElsewhere() {
		if err := fingerprint(); err != nil || v.unchanged() { // then it stays with its earlier version
			return false, err
		}
	}
	text := func(dst []byte) ([]byte, error) {
		if err := c.decode(v, r); err != nil {
			return dst, err
		}
		c.parse(v, r)
		return v.page.AppendProse(dst, v.shown.Body), nil
	}
	page, category, away, err := c.cluster.Export(ctx, v.task.Link, &x, text)
	v.sorted(category)
	if err != nil || !away {
		to, _ := page.Destination()
		v.category = to.Category
		return false, err
	}
	if c.planner != nil {
		if err := fingerprint(); err != nil {
			return false, err
		}
		digest, stored, _, err := warc.Digests(&x)
		if err != nil {
			return false, err
		}
		page.SetVersion(binary.BigEndian.Uint64(digest[:]))
		v.written.BodyDigest, v.written.PayloadDigest = digest, stored
		v.written.Original = warc.Original{URL: x.URL, Date: x.Began.Truncate(time.Millisecond)}
		if stored != digest {
			v.written.Original.Stored = stored
		}
	}
	v.sent = page
	v.notes = append(v.notes, "exported")
	if c.reader != nil && v.parsed { // otherwise its text does not matter
		v.shown.Link, v.shown.Status, v.shown.Header, v.shown.MIME = v.task.Link, r.Status, r.Header, v.mime
		v.shown.Parsed = &v.page
		c.reader.Passed(&v.shown)
	}
	return true, nil
}

// sorted notes the category of v's page.
func (v *visit) sorted(category string) {
	if v.topic = category; category != "" {
		v.notes = append(v.notes, "category:"+category)
	}
}

// countKept counts a page that this agent keeps by its category, unless the response before is in this archive, too.
func (c *Crawler) countKept(v *visit) {
	if v.topic == "" || !c.hasPage(v) || v.before != nil && v.before.Original.ID != [16]byte{} {
		return
	}
	if c.topics == nil {
		c.topics = map[string]int64{}
	}
	c.topics[v.topic]++
}

// countCategories adds to the categories of this agent how many pages of each it keeps, and the others that it keeps
// pages of.
func (c *Crawler) countCategories(list []report.Category) []report.Category {
	for i := range list {
		list[i].Pages = c.topics[list[i].Name]
	}
	for name, pages := range c.topics {
		if !slices.ContainsFunc(list, func(k report.Category) bool { return k.Name == name }) {
			list = append(list, report.Category{Name: name, Pages: pages})
		}
	}
	slices.SortFunc(list, func(a, b report.Category) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// destination returns where a link goes whose URL has key k. away is false if the page's category does not say it, or
// if this agent follows the link.
func (c *Crawler) destination(v *visit, k link.Key) (to link.Destination, away bool) {
	if v.category == 0 {
		return to, false
	}
	to = link.Destination{Category: v.category, Hash: k.Host}
	return to, !c.cluster.Keeps(to)
}

// isKnown reports whether a link of v's page was accepted, as far as c.known can tell.
func (c *Crawler) isKnown(v *visit, k link.Key) bool {
	if to, away := c.destination(v, k); away {
		k = k.To(to)
	}
	return c.known.has(k.For(v.appName()))
}

// An Imported is a page that another agent has fetched, and that this one has read and archived.
type Imported struct{ v *visit }

// ErrImport reports records that are no page which an agent can have sent.
var ErrImport = errors.New("not a page")

// Import reads and archives a page that another agent has fetched: link is its URL, category is empty if pages have
// none, and records are the page's WARC records. The page counts when Settle has been called. Import needs no
// dispatcher. It blocks for as long as records do. The error is an ErrImport, of reading records, or a failure of this
// machine.
func (l *Loop) Import(ctx context.Context, from string, link link.Link, category string,
	records io.Reader) (*Imported, error) {
	c := l.c
	resp, err := c.receive(link.URL, records)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", link.URL, err)
	}
	defer resp.Release()
	v := new(visit)
	v.reset(frontier.Task{Link: link})
	v.asked.SetImported()
	v.inHost.on = c.Scope.BoundsHostDepth()
	v.take(resp, Fetched)
	v.notes = append(v.notes, "imported:"+from)
	v.sorted(category)
	if v.unkept, err = c.leaves(v, resp); err != nil {
		return nil, err
	}
	if err := c.compare(ctx, v, resp); err != nil {
		return nil, err
	}
	if err := c.read(ctx, v, resp); err != nil {
		v.endClaim(false)
		return nil, err
	}
	if err := c.keep(v, resp); err != nil {
		v.endClaim(false)
		return nil, err
	}
	c.handOn(ctx, v, resp)
	return &Imported{v}, nil
}

// Settle counts an imported page and takes its links in. All records of it are in one batch. settled is false if Pages
// has refused the page: then the run stops, and the page must come again.
func (l *Loop) Settle(p *Imported, now time.Time) (settled bool) {
	c, v := l.c, p.v
	if c.pagesStop = c.pagesStop || v.stops; v.outcome == Abandoned {
		return false
	}
	f := c.finishOf(v, false)
	c.intake(&v.Links)
	for _, s := range v.skipped {
		c.skip(s)
	}
	v.noteRefetch()
	c.log(v, f, now)
	c.logLinks(v, &f, now)
	c.record(v, &f)
	if v.judged && !v.duplicate && v.archived && !c.omits(v) && c.fatal == nil {
		c.cluster.Archived(v.written.BodyDigest, v.written.Original)
	}
	v.endClaim(c.fatal == nil)
	c.append()
	return true
}

// Size returns the bytes of the page's response, with its header, as they crossed the wire.
func (p *Imported) Size() int64 { return p.v.size }

// Abandon gives up an imported page that will not be settled.
func (p *Imported) Abandon() { p.v.endClaim(false) }

// A replayer makes a response of bytes that another agent has received.
type replayer interface {
	Replay(x fetch.Received, wire io.Reader) (*fetch.Response, error)
}

// maxRequest bounds a request of another agent in bytes. It is more than any agent sends.
const maxRequest = 256 << 10

// receive makes a response of WARC records: first the response, then the others in any order.
func (c *Crawler) receive(u weburl.URL, records io.Reader) (*fetch.Response, error) {
	f, ok := c.Fetch.(replayer)
	if !ok {
		return nil, errors.New("this crawl cannot take pages of other agents")
	}
	bad := func(err error) error {
		if errors.Is(err, warc.ErrDamaged) || errors.Is(err, fetch.ErrNotResponse) {
			return fmt.Errorf("%w: %w", ErrImport, err)
		}
		return err
	}
	r := warc.NewReader(records)
	rec, err := r.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: no record", ErrImport)
		}
		return nil, bad(err)
	}
	if rec.Type() != "response" || rec.URL() != u.String() {
		return nil, fmt.Errorf("%w: a %.20q record of %.200q", ErrImport, rec.Type(), rec.URL())
	}
	x := fetch.Received{URL: u, Size: rec.Size, Truncated: rec.Header.Value("WARC-Truncated")}
	if x.Began, err = time.Parse(time.RFC3339Nano, rec.Date()); err != nil {
		return nil, fmt.Errorf("%w: WARC-Date %.40q", ErrImport, rec.Date())
	}
	if ip := rec.Header.Value("WARC-IP-Address"); ip != "" {
		if x.Addr, err = netip.ParseAddr(ip); err != nil {
			return nil, fmt.Errorf("%w: WARC-IP-Address %.40q", ErrImport, ip)
		}
	}
	resp, err := f.Replay(x, rec)
	if err != nil {
		return nil, bad(err)
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return resp, nil
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(io.LimitReader(rec, maxRequest+1))
		}
		if err == nil && len(b) > maxRequest {
			err = fmt.Errorf("%w: a %.20q record of more than %d bytes", ErrImport, rec.Type(), maxRequest)
		}
		if err != nil {
			resp.Release()
			return nil, bad(err)
		}
		switch rec.Type() {
		case "request":
			resp.Request = b
		case "metadata":
			if ms, err := strconv.ParseInt(field(b, "fetchTimeMs"), 10, 64); err == nil && ms >= 0 {
				resp.Duration = time.Duration(min(ms, 1<<40)) * time.Millisecond
			}
		}
	}
}

// field returns the value of a field of an application/warc-fields block, or "".
func field(block []byte, name string) string {
	for line := range bytes.SplitSeq(block, []byte("\n")) {
		if k, v, ok := bytes.Cut(line, []byte(":")); ok && string(k) == name {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}
