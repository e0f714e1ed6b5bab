package crawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Several applications share one crawl. Each has its own URLs, scope, strategy and share of the requests. A link of an
// application carries its name (link.Link.App), and so do the links of its pages. Its key differs from that of the
// URL. So each application's link is accepted, waits, moves and finishes by itself, like any other link.
//
// The first link to a URL fetches it. The others get the page from the archive: see visit/shared.go.

// MaxApplications is the number of applications that a crawl can have at a time.
const MaxApplications = 15

// ErrNoApplication reports the name of an application that is not defined.
var ErrNoApplication = errors.New("no such application")

// applications are the applications of a Crawler.
type applications struct {
	table atomic.Pointer[appTable] // in force; nil: there never were any
	some  atomic.Bool              // there are or were applications, now or in an earlier run

	heldNow atomic.Pointer[map[string]bool] // held, for other goroutines

	mu     sync.Mutex           // guards counts
	counts map[string]*appCount // by name; of removed applications, too

	// The dispatcher owns the fields below.
	heeded  *appTable            // see heedApps
	classed *appTable            // see hold
	removed map[string]bool      // applications that were defined in this run and are not any more
	slots   map[string]uint8     // classes of the frontier, by name
	held    map[string]bool      // applications whose links wait until pages are collected; never changed
	unknown map[string]time.Time // when links of an application first came that is not defined
}

// An appTable never changes.
type appTable map[string]*visit.Application

// of returns the application with a name, or nil.
func (t *appTable) of(name string) *visit.Application {
	if t == nil {
		return nil
	}
	return (*t)[name]
}

// Of implements visit.Applications.
func (a *applications) Of(name string) *visit.Application { return a.table.Load().of(name) }

// Any implements visit.Applications.
func (a *applications) Any() bool { return a.some.Load() }

// collected reports whether pages of any application are collected.
func (t *appTable) collected() bool {
	if t != nil {
		for _, a := range *t {
			if a.Pages {
				return true
			}
		}
	}
	return false
}

// CheckApplicationName returns the error of a name, for people.
func CheckApplicationName(name string) error {
	wrong := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.'
	}
	if name == "" || len(name) > 64 || name[0] == '.' || strings.ContainsFunc(name, wrong) {
		return fmt.Errorf("application %q: a name has 1 to 64 characters A-Z, a-z, 0-9, \"-\" and \".\"", name)
	}
	return nil
}

// SetApplications replaces all applications. The waiting links of an application that is no longer there are finished
// without a visit, and its pages that were not collected are deleted. Safe for concurrent use, also before Run.
func (c *Crawler) SetApplications(apps []visit.Application) error {
	if len(apps) > MaxApplications {
		return fmt.Errorf("%d applications: at most %d at a time", len(apps), MaxApplications)
	}
	t := appTable{}
	for _, a := range apps {
		if err := CheckApplicationName(a.Name); err != nil {
			return err
		}
		if a.Scope == nil {
			return fmt.Errorf("application %q has no scope", a.Name)
		}
		t[a.Name] = &a
	}
	for _, a := range apps {
		if a.Pages && c.Delivery == nil {
			return fmt.Errorf("application %q: this crawl keeps no pages to be collected", a.Name)
		}
		if a.Pages {
			if _, err := c.Delivery.Create(a.Name); err != nil {
				return err
			}
		}
	}
	c.apps.table.Store(&t)
	if len(t) > 0 {
		c.apps.some.Store(true)
	}
	if err := c.run.Heed(context.Background(), "applications", func(time.Time) { c.heedApps() }); err != nil {
		return err
	}
	return c.Delivery.Keep(func(name string) bool { a := t.of(name); return a != nil && a.Pages })
}

// heedApps lets the dispatcher work with the applications that are in force now.
func (c *Crawler) heedApps() {
	t := c.apps.table.Load()
	if t == nil {
		return
	}
	if before := c.apps.heeded; t != before {
		c.apps.heeded = t
		c.apps.remove(before, t)
		c.run.Stir()
		for name := range *t {
			if c.apps.define(name) { // from now on visits look into the archive, also after a restart
				c.ledger.Add(state.Application, state.AppendApplication(nil, name, 0, 0))
			}
			delete(c.apps.unknown, name)
		}
		c.append()
	} else if !t.collected() {
		return
	}
	c.hold(t)
}

// remove notes which applications of a table are not in the next one.
func (a *applications) remove(before, next *appTable) {
	if a.removed == nil {
		a.removed = map[string]bool{}
	}
	if before != nil {
		for name := range *before {
			a.removed[name] = true
		}
	}
	for name := range *next {
		delete(a.removed, name)
	}
}

// hold sets the classes of the frontier, if they are not set, or if an application must wait now or need not wait any
// longer.
func (c *Crawler) hold(t *appTable) {
	held := map[string]bool{}
	for name, a := range *t {
		if l := c.Delivery.Log(name); a.Pages && l != nil && l.Waiting() >= c.cfg.Uncollected {
			held[name] = true
		}
	}
	if c.apps.classed == t && maps.Equal(held, c.apps.held) {
		return
	}
	c.apps.classed, c.apps.held = t, held
	c.run.Stir()
	classes := make([]frontier.Class, MaxApplications+1)
	for name, a := range *t {
		if n := c.apps.slot(name); n > 0 {
			classes[n] = frontier.Class{Weight: a.Share, Held: held[name]}
		}
	}
	c.Frontier.SetClasses(classes)
	c.apps.heldNow.Store(&held)
}

// idle ends the run if no work is left, and no pages of an application are collected. It reports whether the dispatcher
// has to look for work again.
func (c *Crawler) idle() bool {
	if !c.apps.table.Load().collected() {
		c.finished()
		return true
	}
	before := c.Frontier.Pending()
	c.run.Fail(c.ledger.Flush())
	return c.run.Failed() || c.Frontier.Pending() > before
}

// unknownWait is how long links wait for the definition of their application. Orders reach an agent within seconds. But
// a link may come earlier, and an agent that was away may have links of an application that was removed meanwhile.
const unknownWait = time.Minute

// withoutApp reports whether l belongs to an application that was removed.
func (c *Crawler) withoutApp(l *link.Link) bool {
	if l.Ext == "" {
		return false
	}
	app := l.App()
	return app != "" && c.apps.table.Load().of(app) == nil
}

// awaitsApp puts a task back that was just taken from the frontier, if its application is not defined yet. The host
// rests meanwhile.
func (c *Crawler) awaitsApp(t *frontier.Task, now time.Time) bool {
	if !c.withoutApp(&t.Link) {
		return false
	}
	app := t.Link.App()
	if c.apps.removed[app] {
		return false
	}
	since, ok := c.apps.unknown[app]
	if !ok {
		if c.apps.unknown == nil {
			c.apps.unknown = map[string]time.Time{}
		}
		since = now
		c.apps.unknown[strings.Clone(app)] = now
	}
	if now.Sub(since) >= unknownWait {
		return false
	}
	err := c.Frontier.Done(t.Host, frontier.Done{NoRequest: true, Again: &t.Link, Attempt: t.Attempt,
		NotBefore: now.Add(unknownWait / 12)}, now)
	if err != nil {
		c.run.Fail(fmt.Errorf("frontier: %w", err))
	}
	return true
}

// An AppURL is a URL for an application. Bare says that it was given without a scheme. Priority is from 0 to 15; URLs
// with a higher one come first among those of the application.
type AppURL struct {
	URL      weburl.URL
	Bare     bool
	Priority uint8
}

// Feed accepts URLs for an application. They are durable when it returns, at this agent or on the way to the agents of
// their hosts. The fates are those of AddSeeds, in the order of urls. The error is ErrNoApplication if the application
// is not defined at this agent. Safe for concurrent use; ctx bounds the wait (ErrUnderWay).
func (c *Crawler) Feed(ctx context.Context, app string, urls []AppURL) (fates []SeedFate, err error) {
	_, err = c.run.Command(ctx, "feed", app, func(time.Time) (string, error) {
		a := c.apps.table.Load().of(app)
		if a == nil {
			return "", fmt.Errorf("application %q: %w", app, ErrNoApplication)
		}
		seeds := make([]link.Link, len(urls))
		for i, u := range urls {
			seeds[i] = c.appLink(a, u)
		}
		fates = c.addSeeds(seeds)
		return "", c.secure()
	})
	return fates, err
}

// appLink returns the link of a URL that is fed to an application.
func (c *Crawler) appLink(a *visit.Application, u AppURL) link.Link {
	l := link.Link{URL: u.URL, Seed: u.URL.Host(), Level: min(u.Priority, 15)}
	if u.Bare {
		l.SetBare()
	}
	l.SetApp(a.Name, "")
	c.Cluster.direct(&l)
	return l
}
