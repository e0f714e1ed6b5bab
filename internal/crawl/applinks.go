package crawl

import (
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// appLinks makes the Ext of the links of one page of an application. They have at most two HostDepths, and those of one
// depth share an Ext.
type appLinks struct {
	root  string
	ext   string // of links without a HostDepth
	depth int    // of deep
	deep  string
}

// appName returns the name of the application to which v's URL belongs; "" for the crawl itself.
func (v *visit) appName() string {
	if v.app == nil {
		return ""
	}
	return v.app.Name
}

// lists reports that the application of v is given its URLs, and that the links on the page are not followed.
func (v *visit) lists() bool { return v.app != nil && !v.app.Follow }

// beginApp finds the application of v's URL. ok is false if it was removed.
func (c *Crawler) beginApp(v *visit) (ok bool) {
	l := &v.task.Link
	if l.Ext == "" {
		return true
	}
	app := l.App()
	if app == "" {
		return true
	}
	if v.app = c.apps.table.Load().of(app); v.app == nil {
		return false
	}
	v.inHost.on = v.app.Scope.BoundsHostDepth()
	root := l.Root()
	if root == "" && l.Hops == "" {
		root = v.app.Scope.Root(l.URL)
	}
	v.appLinks.set(app, root)
	return true
}

func (a *appLinks) set(app, root string) {
	var l link.Link
	l.SetApp(app, root)
	*a = appLinks{root: root, ext: l.Ext}
}

// extOf returns the Ext of a link with a HostDepth.
func (a *appLinks) extOf(app string, depth int) string {
	if depth == 0 {
		return a.ext
	}
	if a.depth != depth {
		var l link.Link
		l.SetHostDepth(depth)
		l.SetApp(app, a.root)
		a.depth, a.deep = depth, l.Ext
	}
	return a.deep
}

// followForApp judges a link on the page of an application's URL. The link belongs to the application, too, and has the
// priority of the page. If a URL that was fed redirects to where its scope does not reach, the scope of the links there
// begins anew.
func (c *Crawler) followForApp(v *visit, l link.Link, k link.Key) {
	if k = k.For(v.app.Name); c.known.has(k) {
		return
	}
	steps := l.Steps()
	l.Ext, l.Level = v.appLinks.extOf(v.app.Name, l.HostDepth()), v.task.Link.Level
	if trailing(l.Hops, 'R') == len(l.Hops) && !v.app.Scope.Below(v.appLinks.root, l.URL) {
		if root := v.app.Scope.Root(l.URL); root != "" {
			l.SetApp(v.app.Name, root)
		}
	}
	if steps != "" {
		l.SetSteps(steps)
	}
	if to, away := c.destination(v, k); away {
		l.SetDestination(to)
		k = k.To(to)
	}
	c.judge(&v.Links, l, k)
}

// judgeApp checks a link of an application against the application's scope, and adds or skips it. Safe for concurrent
// use.
func (c *Crawler) judgeApp(ls *Links, l link.Link, k link.Key, app string) {
	a := c.apps.table.Load().of(app)
	if a == nil {
		ls.Skip(l, noApplication)
		return
	}
	if d := a.Scope.Judge(l); !d.In {
		ls.Skip(l, report.ReasonBy(string(d.Reason), d.Rule))
		return
	}
	c.addJudged(ls, l, k)
}

func (c *Crawler) addJudged(ls *Links, l link.Link, k link.Key) {
	_, directed := l.Destination()
	ls.add(l, k, directed || c.notOurs(l.URL))
}

// noApplication is the reason why a link is dropped whose application is not defined any more.
const noApplication = "noApplication"
