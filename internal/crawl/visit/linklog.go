package visit

import (
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A worker encodes the links of its page, because that takes time. The dispatcher writes the line with the finish of
// the URL, so that a kill cannot separate the two.

// linksTo encodes the link that a redirect makes.
func (p *Pool) linksTo(v *Attempt, to weburl.URL) {
	if p.LinkLog == nil || to.IsZero() {
		return
	}
	v.LinkLog().Out.Reset(true)
	v.LinkLog().Out.Add(to.String(), linklog.Redirect, nil, nil)
}

// linksOf encodes the links of the page that was parsed.
func (p *Pool) linksOf(v *Attempt) {
	if p.LinkLog == nil {
		return
	}
	v.LinkLog().Out.Reset(true)
	out := &v.LinkLog().Out
	v.Page.HTML.Each(func(l *parse.Link, anchor, rel []byte) { out.Add(l.URL.String(), l.Tag, rel, anchor) })
}

// A LinkLogNote has the links of a page for the link log.
type LinkLogNote struct{ Out linklog.Links }

func (n *LinkLogNote) Reset() { n.Out.Reset(false) }

func (v *Attempt) LinkLog() *LinkLogNote { return Annotated[LinkLogNote](v) }
