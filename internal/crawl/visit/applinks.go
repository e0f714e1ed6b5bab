package visit

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// An Application is one of the programs that share the crawl.
type Application struct {
	// Name has 1 to 64 characters A-Z, a-z, 0-9, "-" and ".", and does not begin with ".".
	Name string
	// Share is the weight of its links, relative to those of the others. The crawl's own links have weight 1. Zero
	// means 1.
	Share float64
	// Scope judges the links of its pages. Each link is judged by the URL that was fed and from which it descends
	// (scope.Scope.Root), and by the seeds of the Scope, if it has any.
	Scope *scope.Scope
	// Follow follows the links of its pages, breadth-first. Otherwise only URLs that are fed are fetched, and those to
	// which they redirect.
	Follow bool
	// Pages keeps its finished URLs for a process that collects them. While an application has it, the crawl does not
	// end by itself.
	Pages bool
}

// appLinks makes the Ext of the links of one page of an application. They have at most two HostDepths, and those of one
// depth share an Ext.
type appLinks struct {
	root  string
	ext   string // of links without a HostDepth
	depth int    // of deep
	deep  string
}

// appName returns the name of the application to which v's URL belongs; "" for the crawl itself.
func (v *Attempt) appName() string {
	if v.App().Of == nil {
		return ""
	}
	return v.App().Of.Name
}

// lists reports that the application of v is given its URLs, and that the links on the page are not followed.
func (v *Attempt) lists() bool { return v.App().Of != nil && !v.App().Of.Follow }

// beginApp finds the application of v's URL. ok is false if it was removed.
func (p *Pool) beginApp(v *Attempt) (ok bool) {
	l := &v.Task.Link
	if l.Ext == "" {
		return true
	}
	app := l.App()
	if app == "" {
		return true
	}
	if v.App().Of = p.Applications.Of(app); v.App().Of == nil {
		return false
	}
	v.Page.InHost.On = v.App().Of.Scope.BoundsHostDepth()
	root := l.Root()
	if root == "" && l.Hops == "" {
		root = v.App().Of.Scope.Root(l.URL)
	}
	v.App().links.set(app, root)
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
func (f *Follower) followForApp(v *Attempt, l link.Link, k link.Key) {
	if k = k.For(v.App().Of.Name); f.known.has(k) {
		return
	}
	steps := l.Steps()
	l.Ext, l.Level = v.App().links.extOf(v.App().Of.Name, l.HostDepth()), v.Task.Link.Level
	if Trailing(l.Hops, 'R') == len(l.Hops) && !v.App().Of.Scope.Below(v.App().links.root, l.URL) {
		if root := v.App().Of.Scope.Root(l.URL); root != "" {
			l.SetApp(v.App().Of.Name, root)
		}
	}
	if steps != "" {
		l.SetSteps(steps)
	}
	if to, away := f.destination(v, k); away {
		l.SetDestination(to)
		k = k.To(to)
	}
	f.Judge(&v.Links, l, k)
}

// judgeApp checks a link of an application against the application's scope, and adds or skips it. Safe for concurrent
// use.
func (f *Follower) judgeApp(ls *Links, l link.Link, k link.Key, app string) {
	a := f.Applications.Of(app)
	if a == nil {
		ls.Skip(l, noApplication)
		return
	}
	if d := a.Scope.Judge(l); !d.In {
		ls.Skip(l, report.ReasonBy(string(d.Reason), d.Rule))
		return
	}
	f.add(ls, l, k)
}

// noApplication is the reason why a link is dropped whose application is not defined any more.
const noApplication = "noApplication"

// An AppNote says for which application the visit is.
type AppNote struct {
	Of         *Application // nil: the crawl itself
	links      appLinks     // of the links on its page
	Elsewhere  bool         // another agent had the host before
	Shared     bool         // the response is from the archive
	ArchivedAt time.Time    // when that was fetched
}

func (n *AppNote) Reset() { *n = AppNote{} }

func (v *Attempt) App() *AppNote { return Annotated[AppNote](v) }
