package crawl

import (
	"context"
	"encoding/base32"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A URL that several applications want, or an application and the crawl itself, is fetched once. Each of them has a
// link of its own, and a host is visited one URL at a time. So the visit of the second link finds the response of the
// first in the archive. It follows the links of that page as those of its application, sends no request, and archives
// nothing. Its finish has state.FlagShared: it counts as a finished URL, and not as a page.
//
//	robots.txt -> this agent's archive -> archives of the agents that had the host before -> the server
//
// A response that the archive does not have is fetched again: one without an HTTP response, one that --keep leaves out,
// and one whose file was moved away. Near-duplicates and contents of other agents are not looked for on the pages of
// applications: of a page whose text another one has, the links of that other page may belong to another application.

// A Sharing is a Cluster whose agents read pages for each other.
type Sharing interface {
	// Capture returns the newest response of u that another agent's archive has, as warc.Writer.OpenCapture does, and
	// the agent's name. None has it if r is nil. It blocks until the agents have answered, for a bounded time. Safe
	// for concurrent use.
	Capture(ctx context.Context, u weburl.URL) (r io.ReadCloser, agent string, err error)
	// Spread reports that any agent may have a page of any host, whatever PagesElsewhere returns.
	Spread() bool
}

// isSpread reports whether other agents may have the page of a link because pages are divided by their content. Only an
// application's link finds such a page: one of the crawl itself leads to a URL that this agent has not fetched.
func (c *Crawler) isSpread(l link.Link) bool {
	s, ok := c.cluster.(Sharing)
	return ok && l.App() != "" && s.Spread()
}

// OpenCapture is what Capture of other agents asks: it returns the newest response of u that this agent's archive has.
// size is the number of bytes of r, which is nil if there is none. Safe for concurrent use.
func (c *Crawler) OpenCapture(u weburl.URL) (r io.ReadCloser, size int64, err error) {
	found, err := c.Archive.Find(u.String())
	if err != nil || found == nil {
		return nil, 0, err
	}
	for _, l := range found {
		size += l.Length
	}
	r, err = c.Archive.OpenCapture(found)
	return r, size, err
}

// shares reports whether v may find its page in the archive. Without applications it costs one load. What an
// application fetches again (Recollect) may be in this agent's archive, but no other one is asked: that of the agent
// which leaves cannot be read later.
func (c *Crawler) shares(v *visit) bool {
	return c.apps.some.Load() && v.before == nil && (v.app != nil || !isRefetch(v.task.Link))
}

// share finishes v with a response of the archive. done is false if none is there.
func (c *Crawler) share(ctx, run context.Context, v *visit) (done bool, err error) {
	done, err = c.shareOwn(ctx, run, v)
	if done || err != nil || !v.elsewhere || isRefetch(v.task.Link) {
		return done, err
	}
	s, ok := c.cluster.(Sharing)
	if !ok {
		return false, nil
	}
	r, agent, err := s.Capture(ctx, v.task.Link.URL)
	if r == nil || err != nil {
		if ctx.Err() != nil {
			v.outcome = Abandoned
			return true, nil
		}
		return false, nil // it is fetched again
	}
	defer r.Close()
	if done, err = c.shareFrom(ctx, run, v, r, warc.Written{}, false); done {
		v.notes = append(v.notes, "shared:"+agent)
	}
	return done, err
}

func (c *Crawler) shareOwn(ctx, run context.Context, v *visit) (done bool, err error) {
	found, err := c.Archive.Find(v.task.Link.URL.String())
	if found == nil && err == nil {
		return false, nil
	}
	var r io.ReadCloser
	if err == nil {
		r, err = c.Archive.OpenCapture(found)
	}
	if err != nil {
		v.notes = append(v.notes, "archive-unreadable")
		return false, nil
	}
	defer r.Close()
	w := warc.Written{File: found[0].File, Offset: found[0].Offset, Length: found[0].Length}
	sum, err := base32.StdEncoding.DecodeString(found[0].Digest)
	if err == nil && len(sum) == len(w.PayloadDigest) {
		copy(w.PayloadDigest[:], sum)
	}
	if done, err = c.shareFrom(ctx, run, v, r, w, true); done {
		v.notes = append(v.notes, "shared")
	}
	return done, err
}

// shareFrom finishes v with the response that r has. own says that the record is in this agent's archive: then later
// visits of the URL may refer to it.
func (c *Crawler) shareFrom(ctx, run context.Context, v *visit, r io.Reader, w warc.Written, own bool) (
	done bool, err error) {
	resp, rec, err := c.restore(v.task.Link.URL, r)
	if err != nil {
		v.notes = append(v.notes, "archive-unreadable")
		return false, nil
	}
	defer resp.Release()
	if original, ok := rec.Original(); ok && own {
		x := exchangeOf(v.task.Link, resp)
		body, stored, ok, err := warc.Digests(&x)
		if err != nil {
			return true, err
		}
		if w.Original = original; ok && body != stored {
			w.Original.Stored = stored
		}
		w.BodyDigest = body
	}
	v.take(resp, Fetched)
	if err := v.typed(c, resp); err != nil {
		return true, err
	}
	// Nothing was requested now: the host gives no sign, and need not rest.
	v.shared, v.written, v.archivedAt = true, w, resp.Began
	v.began, v.took, v.size, v.slow, v.retryAfter, v.last = time.Time{}, 0, 0, false, 0, true
	if err := c.read(ctx, v, resp); err != nil {
		return true, err
	}
	c.handOn(run, v, resp)
	return true, nil
}

// restore makes a response of records, and returns the first of them.
func (c *Crawler) restore(u weburl.URL, r io.Reader) (*fetch.Response, *warc.Record, error) {
	f, ok := c.Fetch.(replayer)
	if !ok {
		return nil, nil, fmt.Errorf("this crawl cannot read responses from an archive")
	}
	rec, wire, size, err := warc.ReadCapture(r)
	if err != nil {
		return nil, nil, err
	}
	if rec.URL() != u.String() {
		return nil, nil, fmt.Errorf("%w: a record of %.200q", warc.ErrDamaged, rec.URL())
	}
	x := fetch.Received{URL: u, Size: size, Truncated: rec.Header.Value("WARC-Truncated")}
	if x.Began, err = time.Parse(time.RFC3339Nano, rec.Date()); err != nil {
		return nil, nil, err
	}
	if ip := rec.Header.Value("WARC-IP-Address"); ip != "" {
		if x.Addr, err = netip.ParseAddr(ip); err != nil {
			return nil, nil, err
		}
	}
	resp, err := f.Replay(x, wire)
	return resp, rec, err
}
