package visit

import (
	"context"
	"encoding/base32"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
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

// Sharing lets agents read pages for each other.
type Sharing interface {
	// Capture returns the newest response of u that another agent's archive has, as warc.Writer.OpenCapture does, and
	// the agent's name. None has it if r is nil. It blocks until the agents have answered, for a bounded time. Safe
	// for concurrent use.
	Capture(ctx context.Context, u weburl.URL) (r io.ReadCloser, agent string, err error)
}

// shares reports whether v may find its page in the archive. Without applications it costs one load. What an
// application fetches again (Recollect) may be in this agent's archive, but no other one is asked: that of the agent
// which leaves cannot be read later.
func (p *Pool) shares(v *Attempt) bool {
	return p.Applications.Any() && v.Plan().Before == nil && (v.App().Of != nil || !IsRefetch(v.Task.Link))
}

// share finishes v with a response of an archive. done is false if none is there, or v does not share.
func (p *Pool) share(ctx, run context.Context, v *Attempt) (done bool, err error) {
	if !p.shares(v) {
		return false, nil
	}
	done, err = p.shareOwn(ctx, run, v)
	if done || err != nil || !v.App().Elsewhere || IsRefetch(v.Task.Link) {
		return done, err
	}
	if p.Sharing == nil {
		return false, nil
	}
	r, agent, err := p.Sharing.Capture(ctx, v.Task.Link.URL)
	if r == nil || err != nil {
		if ctx.Err() != nil {
			v.Outcome = Abandoned
			return true, nil
		}
		return false, nil // it is fetched again
	}
	defer r.Close()
	if done, err = p.shareFrom(ctx, run, v, r, warc.Written{}, false); done {
		v.Notes = append(v.Notes, "shared:"+agent)
	}
	return done, err
}

func (p *Pool) shareOwn(ctx, run context.Context, v *Attempt) (done bool, err error) {
	found, err := p.Archive.Find(v.Task.Link.URL.String())
	if found == nil && err == nil {
		return false, nil
	}
	var r io.ReadCloser
	if err == nil {
		r, err = p.Archive.OpenCapture(found)
	}
	if err != nil {
		v.Notes = append(v.Notes, "archive-unreadable")
		return false, nil
	}
	defer r.Close()
	w := warc.Written{File: found[0].File, Offset: found[0].Offset, Length: found[0].Length}
	sum, err := base32.StdEncoding.DecodeString(found[0].Digest)
	if err == nil && len(sum) == len(w.PayloadDigest) {
		copy(w.PayloadDigest[:], sum)
	}
	if done, err = p.shareFrom(ctx, run, v, r, w, true); done {
		v.Notes = append(v.Notes, "shared")
	}
	return done, err
}

// shareFrom finishes v with the response that r has. own says that the record is in this agent's archive: then later
// visits of the URL may refer to it.
func (p *Pool) shareFrom(ctx, run context.Context, v *Attempt, r io.Reader, w warc.Written, own bool) (
	done bool, err error) {
	resp, rec, err := p.restore(v.Task.Link.URL, r)
	if err != nil {
		v.Notes = append(v.Notes, "archive-unreadable")
		return false, nil
	}
	defer resp.Release()
	if original, ok := rec.Original(); ok && own {
		x := exchangeOf(v.Task.Link, resp)
		body, stored, ok, err := warc.Digests(&x)
		if err != nil {
			return true, err
		}
		if w.Original = original; ok && body != stored {
			w.Original.Stored = stored
		}
		w.BodyDigest = body
	}
	v.Take(resp, Fetched)
	p.hear(v, resp)
	if err := p.typed(v, resp); err != nil {
		return true, err
	}
	// Nothing was requested now: the host gives no sign, and need not rest.
	v.App().Shared, v.Record.Written, v.App().ArchivedAt = true, w, resp.Began
	x := &v.Response
	x.Began, x.Took, x.Size, x.Slow, x.RetryAfter, v.Last = time.Time{}, 0, 0, false, 0, true
	if err := p.read(ctx, v, resp); err != nil {
		return true, err
	}
	p.handOn(run, v, resp)
	return true, nil
}

// restore makes a response of records, and returns the first of them.
func (p *Pool) restore(u weburl.URL, r io.Reader) (*fetch.Response, *warc.Record, error) {
	f, ok := p.Fetch.(Replayer)
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
