package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A worker encodes the links of its page, because that takes time. The dispatcher writes the line with the finish of
// the URL, so that a kill cannot separate the two.

// linksTo encodes the link that a redirect makes.
func (c *Crawler) linksTo(v *visit, to weburl.URL) {
	if c.LinkLog == nil || to.IsZero() {
		return
	}
	v.outLinks.Reset(true)
	v.outLinks.Add(to.String(), linklog.Redirect, nil, nil)
}

// linksOf encodes the links of the page that was parsed.
func (c *Crawler) linksOf(v *visit) {
	if c.LinkLog == nil {
		return
	}
	v.outLinks.Reset(true)
	v.page.Each(func(l *parse.Link, anchor, rel []byte) { v.outLinks.Add(l.URL.String(), l.Tag, rel, anchor) })
}

// logLinks writes the line of a finished URL.
func (c *Crawler) logLinks(v *visit, f *state.Finish, now time.Time) {
	if c.LinkLog == nil {
		return
	}
	line := linklog.Line{URL: v.asked.URL.String(), Time: now, Status: f.Code, Error: f.Kind, Links: &v.outLinks}
	if line.Error == "" {
		line.Error = report.RedirectProblem(v.notes)
	}
	c.LinkLog.Write(&line)
}
