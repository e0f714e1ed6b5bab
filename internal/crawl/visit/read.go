package visit

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// read finds the links of a response: the target of its redirect, or the links on its page.
func (p *Pool) read(ctx context.Context, v *Attempt, r *fetch.Response) error {
	l := v.Task.Link
	if l.IsSitemap() { // one at a time: a hostile one takes some hundred MB of memory
		p.sitemaps.Lock()
		defer p.sitemaps.Unlock()
	}
	if p.Strategy != nil || p.Pages != nil {
		shown := &v.Page.Shown
		shown.Link, shown.Status, shown.Header, shown.MIME = l, r.Status, r.Header, v.Response.MIME
	}
	if p.planner != nil && r.Status/100 != 2 {
		v.fingerprint(r, nil, false)
	}
	if to, ok := fetch.Redirect(r); ok {
		v.Page.References = 1
		u, err := l.URL.Resolve(to)
		p.linksTo(v, u)
		switch {
		case err != nil:
			v.Notes = append(v.Notes, "bad-redirect")
		case Trailing(l.Hops, 'R') >= p.cfg.MaxRedirects:
			v.Notes = append(v.Notes, "too-many-redirects")
			v.Skipped = append(v.Skipped, Skip{Child(l, u, 'R'), "tooManyRedirects"})
		default:
			next := Child(l, u, 'R')
			next.Ext = v.extTo(u, 'R')
			v.sitemapMoved(&next)
			if !p.comesBack(v, &next) {
				p.Links.Follow(v, next, next.Key())
			}
		}
		return nil
	}
	if r.Status/100 != 2 {
		return nil // an error page's links belong to the server, not to its content
	}
	if v.Contents().Duplicate && p.planner == nil && p.Pages == nil && p.LinkLog == nil {
		return nil // the first page's links were followed
	}
	if err := p.decode(v, r); err != nil {
		return err
	}
	if p.planner != nil {
		v.fingerprint(r, v.Page.Shown.Body, v.Page.Shown.Cut)
	}
	if v.followedElsewhere() || v.Contents().Duplicate && p.LinkLog == nil {
		return nil
	}
	p.parse(v, r)
	v.noteEntries()
	p.linksOf(v)
	if v.Contents().Duplicate {
		v.Page.Shown.Directives = parse.Directives{} // its record has them only if its links are followed
		return nil
	}
	v.Page.Shown.Parsed = &v.Page.HTML
	if v.lists() && p.LinkLog == nil {
		return nil // nobody follows its links, but the records have what it says to robots
	}
	if v.App().Of == nil && !v.App().Shared && v.Page.HTML.Kind != parse.Sitemap {
		if err := p.resemble(ctx, v, v.Page.Shown.Body, v.Page.Shown.Cut); err != nil {
			return err
		}
	}
	if p.Omits(v) {
		return nil // the other page's links were followed
	}
	v.Page.References = len(v.Page.HTML.Links) + v.Page.HTML.Withheld
	if v.Page.HTML.Dropped > 0 {
		v.Notes = append(v.Notes, "links-dropped:"+strconv.Itoa(v.Page.HTML.Dropped))
	}
	if IsRefetch(l) || v.lists() {
		return nil // its links were followed, or the application is given its URLs
	}
	var hops ['Z' + 1]string // one path for each letter, shared by the page's links
	for i := range v.Page.HTML.Links {
		out := &v.Page.HTML.Links[i]
		follow := !out.NoFollow || out.Hop != 'L'
		if follow && (p.Strategy == nil || v.App().Of != nil) && p.Links.isKnown(v, out.Key) {
			continue
		}
		h := out.Hop % byte(len(hops))
		if hops[h] == "" {
			hops[h] = l.Hops + string(rune(out.Hop))
		}
		to := link.Link{URL: out.URL, Via: l.URL.String(), Hops: hops[h], Seed: l.Seed, Ext: v.extTo(out.URL, h)}
		if !follow {
			v.Skipped = append(v.Skipped, Skip{to, "nofollow"})
			continue
		}
		if !v.sitemapAt(&to, out.Tag) {
			v.Skipped = append(v.Skipped, Skip{to, "sitemapTooDeep"})
			continue
		}
		p.Links.Follow(v, to, out.Key)
	}
	return nil
}

// typed finds the media type of a page whose header does not tell it for sure.
func (p *Pool) typed(v *Attempt, r *fetch.Response) error {
	if _, sure := r.Header.Type(); sure || r.Failure != nil || r.Status/100 != 2 {
		return nil
	}
	if err := p.decode(v, r); err != nil {
		return err
	}
	v.Response.MIME = r.Header.TypeOf(v.Page.Shown.Body).Essence
	return nil
}

// decode decodes the body of a page, once.
func (p *Pool) decode(v *Attempt, r *fetch.Response) error {
	if v.Page.decoded {
		return nil
	}
	limit := p.cfg.MaxDecoded
	if v.Task.Link.IsSitemap() {
		limit = max(limit, sitemapMax)
	}
	body, cut, err := r.Decode(limit)
	switch {
	case errors.Is(err, fetch.ErrCoding):
		v.Notes = append(v.Notes, "bad-encoding") // the decoded part is used
	case err != nil:
		return fmt.Errorf("decode %s: %w", v.Asked.URL, err)
	}
	if cut {
		v.Notes = append(v.Notes, "links-cut")
	}
	v.Page.decoded, v.Page.Shown.Body, v.Page.Shown.Cut = true, body, cut
	return nil
}

// parse parses a decoded page, once.
func (p *Pool) parse(v *Attempt, r *fetch.Response) {
	if v.Page.parsed {
		return
	}
	v.Page.parsed = true
	parse.Parse(parse.Input{
		URL:     v.Task.Link.URL,
		Header:  r.Header,
		Body:    v.Page.Shown.Body,
		Sitemap: v.Task.Link.IsSitemap(),
	}, parse.Options{
		Requisites: p.cfg.Requisites, Agent: p.cfg.Agent, Texts: p.LinkLog != nil || p.reader != nil,
		SitemapFrom: p.cfg.Sitemaps.From,
	}, &v.Page.HTML)
	v.Page.Shown.Directives = v.Page.HTML.Directives
}
