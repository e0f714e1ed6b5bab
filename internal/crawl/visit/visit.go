package visit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/dns"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// visit makes one attempt at a URL:
//
//	robots.txt -> an archive, or the server -> whose page is it? -> does another page have its content or text?
//	-> links -> archive
//
// A failure of the web is recorded in v; an error is a failure of this machine. run ends when the run stops. What the
// attempt does in the network ends with its lease, too.
func (p *Pool) visit(run context.Context, v *Attempt) error {
	v.Page.InHost.On = p.Scope.BoundsHostDepth()
	ctx, end := v.Permit.begin(run)
	defer end()
	if IsErrand(v.Task.Link) {
		return p.fetchErrand(ctx, v)
	}
	if !p.beginApp(v) {
		v.Outcome = Dropped
		return nil
	}
	if allowed, err := p.askRobots(ctx, v); !allowed || err != nil {
		return err
	}
	if shared, err := p.share(ctx, run, v); shared || err != nil {
		return err
	}
	resp, err := p.fetchPage(ctx, v)
	if err != nil {
		return p.failed(ctx, v, err)
	}
	defer resp.Release()
	v.Take(resp, Fetched)
	if v.Outcome == Stale || !p.Final(v) {
		return nil
	}
	if err := p.typed(v, resp); err != nil {
		return err
	}
	if v.Record.Left, err = p.Leaves(v, resp); err != nil {
		return err
	}
	if away, err := p.export(ctx, v, resp); away || err != nil {
		return err
	}
	return p.Use(ctx, run, v, resp)
}

// Use follows the links of a response that this agent keeps, archives it, and hands it on.
func (p *Pool) Use(ctx, run context.Context, v *Attempt, r *fetch.Response) error {
	if err := p.compare(ctx, v, r); err != nil {
		return err
	}
	if r.Failure == nil {
		if err := p.read(ctx, v, r); err != nil {
			return err
		}
	}
	if err := p.keep(v, r); err != nil {
		return err
	}
	p.handOn(run, v, r)
	return nil
}

// fetchPage fetches the URL of v; for the Planner, only if it has changed.
func (p *Pool) fetchPage(ctx context.Context, v *Attempt) (*fetch.Response, error) {
	req := fetch.Request{URL: v.Task.Link.URL, Addr: v.Task.Addr}
	if before := v.Plan().Before; before != nil {
		req.If = before.If
	}
	return p.fetch(ctx, v, req)
}

// failed handles an error of Fetch. The end of the run is an outcome; all other errors are
// failures of this machine.
func (p *Pool) failed(ctx context.Context, v *Attempt, err error) error {
	if ctx.Err() != nil || errors.Is(err, rate.ErrHeld) {
		v.Outcome = Abandoned
		return nil
	}
	return fmt.Errorf("fetch %s: %w", v.Task.Link.URL, err)
}

// Take records the response in v.
func (v *Attempt) Take(r *fetch.Response, o Outcome) {
	v.Outcome, v.Response.Status = o, r.Status
	v.Response.Began, v.Response.SentAt, v.Response.Took = r.Began, r.Sent, r.Duration
	v.Response.Size, v.Response.Truncated = r.Wire.Size(), r.Truncated
	v.Response.Content = v.Response.Size - int64(r.HeadLen)
	if r.Note != "" {
		v.Notes = append(v.Notes, strings.Split(r.Note, ",")...)
	}
	if r.Truncated != "" {
		v.Notes = append(v.Notes, "truncated:"+r.Truncated)
	}
	if f := r.Failure; f != nil {
		switch {
		case r.Stale:
			v.Outcome = Stale
		case o == Fetched:
			v.Outcome = Failed
		}
		v.Response.Fail, v.Response.Failure, v.Detail = f, f.Kind, f.Error()
		return
	}
	t, _ := r.Header.Type()
	v.Response.MIME = t.Essence
	v.Response.Slow = r.Status == 429 || r.Status == 503
	if d, ok := fetch.RetryAfter(r.Header, r.Began.Add(r.Duration)); ok && (v.Response.Slow || r.Status/100 == 3) {
		v.Response.RetryAfter = d
	}
}

// exchangeOf returns what the archive stores of a response to l.
func exchangeOf(l link.Link, r *fetch.Response) warc.Exchange {
	return warc.Exchange{
		URL: l.URL.String(), Addr: r.Addr.Addr(), Began: r.Began, Request: r.Request, Over: transportOf(r),
		Response: r.Wire, HTTP: r.Failure == nil, HeadLen: r.HeadLen, Truncated: r.Truncated,
		Robots: strings.HasSuffix(l.Hops, "P"),
	}
}

// transportOf returns how a response crossed the network.
func transportOf(r *fetch.Response) warc.Transport {
	over := warc.Transport{TLS: r.Secure.Version, Cipher: r.Secure.Cipher}
	switch {
	case r.Proto == "HTTP/1.0":
		over.HTTP = "http/1.0"
	case r.Proto != "":
		over.HTTP = "http/1.1" // whatever the server calls it
	}
	return over
}

// Child returns the link from a page at l to u.
func Child(l link.Link, u weburl.URL, hop byte) link.Link {
	return link.Link{URL: u, Via: l.URL.String(), Hops: l.Hops + string(rune(hop)), Seed: l.Seed}
}

// Trailing counts the bytes b at the end of s.
func Trailing(s string, b byte) int {
	n := 0
	for n < len(s) && s[len(s)-1-n] == b {
		n++
	}
	return n
}

func IsNotFound(err error) bool { return errors.Is(err, dns.ErrNotFound) }

// ProxyDown reports whether the visit failed because the proxy cannot be reached.
func (v *Attempt) ProxyDown() bool {
	return v.Response.Fail != nil && errors.Is(v.Response.Fail.Err, fetch.ErrProxyDown)
}

// A Fetcher turns a request into a response. Failures of the web are in Response.Failure; an
// error is a failure of this machine, or ctx's. Safe for concurrent use.
type Fetcher interface {
	Fetch(ctx context.Context, r fetch.Request) (*fetch.Response, error)
}

// fetch fetches for v. A long fetch makes v slow. Then fetch returns when a worker has ended to
// make place for v, or when ctx is done.
func (p *Pool) fetch(ctx context.Context, v *Attempt, req fetch.Request) (*fetch.Response, error) {
	w := v.worker
	v.Response.Cookies = p.dress(&req)
	req.Pacer, req.ConnectWithin = &v.Turn, v.Within
	w.begin(&req)
	resp, err := p.Fetch.Fetch(ctx, req)
	w.end(ctx)
	p.learnCookies(resp)
	return resp, err
}

// askRobots asks the rules of robots.txt whether v may be fetched. If they are not known, it fetches them instead: then
// v is not allowed yet, and comes again.
func (p *Pool) askRobots(ctx context.Context, v *Attempt) (allowed bool, err error) {
	p.heedRobots(v)
	u := v.Task.Link.URL
	a := p.Robots.Ask(u, p.cfg.Clock.Now())
	v.Robots.Delay = a.Delay
	switch a.Verdict {
	case robots.Unreachable:
		v.Outcome, v.Robots.Until = RobotsUnreachable, a.Until
		return false, nil
	case robots.Fetch:
		return false, p.fetchRobots(ctx, v, u, a.Fetch)
	}
	if p.Links.followRoot(v); a.Verdict == robots.Denied {
		v.Outcome, v.Robots.Rule = Denied, a.Rule
		return false, nil
	}
	return true, nil
}
