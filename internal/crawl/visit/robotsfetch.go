package visit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// BesideConnect is how long an origin that fails may take to connect while another origin of its host answers, if that
// is less than its share. It is enough for two packets that are lost.
const BesideConnect = 2 * time.Second

// fetchErrand fetches a robots.txt for another host.
func (p *Pool) fetchErrand(ctx context.Context, v *Attempt) error {
	l := v.Task.Link
	about, err := weburl.Parse(l.Via)
	if err != nil {
		return fmt.Errorf("robots.txt errand for %q: %w", l.Via, err)
	}
	err = p.fetchRobots(ctx, v, about, l.URL)
	p.LetGo(l.URL.Host()) // the next agent that contacts the host may be another one
	return err
}

// fetchRobots fetches the robots.txt of about, or the target of its redirects. If the target is
// on another host, it becomes an errand: a fetch in the other host's queue, with that host's
// politeness.
func (p *Pool) fetchRobots(ctx context.Context, v *Attempt, about, from weburl.URL) error {
	l := v.Task.Link
	v.App().Of = nil // the sitemaps are for the crawl itself
	if from.Host() != l.URL.Host() {
		v.Outcome = Elsewhere
		v.Robots.Errand = link.Link{URL: from, Via: about.String(), Hops: errandHops, Seed: l.Seed}
		return nil
	}
	e, read := p.Robots.Entry(about.Origin())
	if (!read || e.Class == robots.ClassUnreachable) && v.HostLives && v.Within == 0 {
		v.Within = BesideConnect // another origin of the host must not wait for long
	}
	v.Turn.Robots = true
	resp, err := p.fetch(ctx, v, fetch.Request{URL: from, Addr: v.Task.Addr, MaxBody: RobotsBody})
	v.Turn.Robots = false
	if err != nil {
		return p.failed(ctx, v, err)
	}
	defer resp.Release()
	v.Take(resp, Prerequisite)
	if v.ProxyDown() {
		v.Outcome = Failed // the robots cache learns nothing
		return nil
	}
	if v.Outcome == Stale {
		return nil
	}
	reply, why, err := RobotsReply(resp)
	if err != nil {
		return fmt.Errorf("decode %s: %w", from, err)
	}
	if why != "" {
		v.Detail = why
		v.Notes = append(v.Notes, "not-whole")
	}
	sitemaps := p.Robots.Learn(about, from, reply, p.cfg.Clock.Now())
	for _, origin := range slices.Compact([]string{about.Origin(), from.Origin()}) {
		if e, ok := p.Robots.Entry(origin); ok {
			v.Robots.Entries = append(v.Robots.Entries, e)
		}
	}
	// The delay is the one that the contacted host demands.
	v.Robots.Delay = p.Robots.Ask(from, p.cfg.Clock.Now()).Delay
	if !IsErrand(l) {
		v.Robots.Delay = max(v.Robots.Delay, p.Robots.Ask(about, p.cfg.Clock.Now()).Delay)
	}
	if p.cfg.Sitemaps.Follow {
		if p.Strategy != nil {
			v.Page.Shown = Page{Link: link.Link{URL: from, Via: about.String(), Hops: l.Hops + "P", Seed: l.Seed},
				Status: resp.Status, Header: resp.Header, MIME: v.Response.MIME}
		}
		p.followSitemaps(v, about, from, sitemaps)
	}
	v.Asked = link.Link{URL: from, Via: about.String(), Hops: l.Hops, Seed: l.Seed}
	if v.Record.Left, err = p.Leaves(v, resp); err != nil {
		return err
	}
	if !IsErrand(l) {
		v.Asked.Hops += "P"
	}
	return p.keep(v, resp)
}

// LetGo closes the idle connection to a host that another agent now crawls.
func (p *Pool) LetGo(host string) {
	if f, ok := p.Fetch.(interface{ LetGo(host string) }); ok {
		f.LetGo(host)
	}
}

// errandHops marks the Link of a robots.txt that is fetched for another host. The journal never
// has such a Link: after a restart the robots cache asks again.
const errandHops = "P"

// IsErrand reports whether l is the fetch of a robots.txt for another host. Only the loop makes such a link.
func IsErrand(l link.Link) bool { return l.Hops == errandHops }
