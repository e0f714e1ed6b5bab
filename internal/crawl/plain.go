package crawl

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A seed without a scheme is asked by https. If no connection can be made for its robots.txt, the
// crawl finishes it and accepts the http URL in its place, as if the seed had redirected there. Both
// are in one batch of the journal, so a kill loses neither. The https URL gets no retries: what
// listens on the port of http is asked instead, in the queue of the same host and with its delays.
// crawl.log has the error of the https URL. In the counts this URL is skipped, and has no error.

// maxPlain bounds the origins of which the crawl remembers that no https connection could be made.
// Other seeds of an origin that it has forgotten try again.
const maxPlain = 10_000

// plain are the origins without an https connection. The dispatcher owns them.
type plain map[string]struct{}

// note decides whether v falls back to http.
func (p plain) note(v *visit.Attempt) {
	l := v.Task.Link
	if !l.Bare() || l.URL.Scheme() != "https" {
		return
	}
	switch {
	case v.Outcome == visit.Prerequisite && v.Response.Fail != nil && v.Response.Fail.NoConnection():
		if len(p) < maxPlain {
			p[strings.Clone(l.URL.Origin())] = struct{}{}
		}
		v.Plain = true
	case v.Outcome == visit.RobotsUnreachable && p.replaces(l):
		v.Plain = true
	}
}

// replaces reports that the http URL takes the place of l.
func (p plain) replaces(l link.Link) bool {
	_, known := p[l.URL.Origin()]
	return known && l.Bare()
}

// followPlain accepts the http URL in place of the https URL of v.
func (c *Crawler) followPlain(v *visit.Attempt) {
	u, err := weburl.Parse("http" + strings.TrimPrefix(v.Task.Link.URL.String(), "https"))
	if err != nil {
		return // not possible: the two schemes have one syntax
	}
	v.Notes = append(v.Notes, "trying-http")
	v.Page.Shown = visit.Page{Link: v.Task.Link}
	v.Links.Reset()
	c.visits.Links.Follow(v, visit.Child(v.Task.Link, u, 'R'), link.KeyOf(u))
	c.Intake.take(&v.Links)
}
