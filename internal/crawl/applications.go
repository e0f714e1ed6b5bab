package crawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Several applications share one crawl. Each has its own URLs, scope, strategy and share of the requests. A link of an
// application carries its name (weburl.Link.App), and so do the links of its pages. Its key differs from that of the
// URL. So each application's link is accepted, waits, moves and finishes by itself, like any other link.
//
// The first link to a URL fetches it. The others get the page from the archive: see shared.go.

// MaxApplications is the number of applications that a crawl can have at a time.
const MaxApplications = 15

// An Application is one of the programs that share the crawl.
type Application struct {
	// Name has 1 to 32 characters a-z, 0-9 and "-".
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

// ErrNoApplication reports the name of an application that is not defined.
var ErrNoApplication = errors.New("no such application")

// applications are the applications of a Crawler. The dispatcher owns the fields without a comment.
type applications struct {
	table  atomic.Pointer[appTable] // in force; nil: there are none
	counts map[string]*appCount     // by name; of removed applications, too
	slots  map[string]uint8         // classes of the frontier, by name
}

// An appTable never changes.
type appTable map[string]*Application

// of returns the application with a name, or nil.
func (t *appTable) of(name string) *Application {
	if t == nil {
		return nil
	}
	return (*t)[name]
}

// An appCount counts the links of an application at this agent.
type appCount struct{ queued, fetched, shared int64 }

// CheckApplicationName returns the error of a name, for people.
func CheckApplicationName(name string) error {
	if name == "" || len(name) > 32 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("application %q: a name has 1 to 32 characters a-z, 0-9 and \"-\"", name)
	}
	return nil
}

// SetApplications replaces all applications. The waiting links of an application that is no longer there are finished
// without a visit, and its pages that were not collected are deleted. Safe for concurrent use, also before Run.
func (c *Crawler) SetApplications(apps []Application) error {
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
	c.apps.table.Store(&t)
	return nil
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
	_, err = c.command(ctx, "feed", app, func(time.Time) (string, error) {
		a := c.apps.table.Load().of(app)
		if a == nil {
			return "", fmt.Errorf("application %q: %w", app, ErrNoApplication)
		}
		seeds := make([]weburl.Link, len(urls))
		for i, u := range urls {
			seeds[i] = c.appLink(a, u)
		}
		fates = c.addSeeds(seeds)
		return "", c.secure()
	})
	return fates, err
}

// appLink returns the link of a URL that is fed to an application.
func (c *Crawler) appLink(a *Application, u AppURL) weburl.Link {
	l := weburl.Link{URL: u.URL, Seed: u.URL.Host(), Level: min(u.Priority, 15)}
	if u.Bare {
		l.SetBare()
	}
	l.SetApp(a.Name, "")
	c.cluster.Direct(&l)
	return l
}

// judgeApp checks a link of an application against the application's scope, and adds or skips it. Safe for concurrent
// use.
func (c *Crawler) judgeApp(ls *Links, l weburl.Link, k weburl.Key, app string) {
	a := c.apps.table.Load().of(app)
	if a == nil {
		ls.Skip(l, noApplication)
		return
	}
	if d := a.Scope.Judge(l); !d.In {
		ls.Skip(l, report.ReasonBy(string(d.Reason), d.Rule))
		return
	}
	_, directed := l.Destination()
	ls.add(l, k, directed || c.notOurs(l.URL))
}

// noApplication is the reason why a link is dropped whose application is not defined any more.
const noApplication = "noApplication"

// ClassOf returns the class of a link in the frontier: 0 for the crawl's own links, and from 1 to MaxApplications for
// those of an application. It is for frontier.Config. Only the dispatcher may call it.
func (c *Crawler) ClassOf(l *weburl.Link) uint8 {
	if l.Ext == "" {
		return 0
	}
	app := l.App()
	if app == "" {
		return 0
	}
	return c.apps.slot(app)
}

// slot returns the class of an application. The name keeps it for as long as it has links. If there are too many names
// of removed applications, a new one gets that of the crawl's own links.
func (a *applications) slot(app string) uint8 {
	if n, ok := a.slots[app]; ok {
		return n
	}
	used := [MaxApplications + 1]bool{true}
	for _, n := range a.slots {
		used[n] = true
	}
	n := max(slices.Index(used[:], false), 0)
	if a.slots == nil {
		a.slots = map[string]uint8{}
	}
	a.slots[strings.Clone(app)] = uint8(n)
	return uint8(n)
}

// A Delivery is a finished URL of an application.
type Delivery struct {
	Position int64  `json:"position,omitempty"` // of the next page: it acknowledges this page and all before it
	URL      string `json:"url"`
	Status   int    `json:"status"`          // HTTP status, or a negative code as in crawl.log
	Error    string `json:"error,omitempty"` // kind of the error
	Via      string `json:"via,omitempty"`
	Hops     string `json:"hops,omitempty"`
	Time     string `json:"time"` // start of the request, RFC 3339; of the finish if none was sent
	MIME     string `json:"mime,omitempty"`
	Size     int64  `json:"size,omitempty"`   // bytes of the body as it was received
	Digest   string `json:"digest,omitempty"` // of the payload: "sha1:…"
	// File and Offset are where this agent's archive has the record; File is empty if it has none.
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Note   string `json:"note,omitempty"` // as in crawl.log, separated by commas
}

// Deliveries returns up to max durable pages of an application, from a position on; 0 means the first one that is not
// acknowledged. Safe for concurrent use.
func (c *Crawler) Deliveries(app string, from int64, max int) ([]Delivery, error) {
	return nil, fmt.Errorf("application %q: %w", app, ErrNoApplication)
}

// Acknowledge records that all pages before position have been collected. It is durable when it returns. A position
// before an earlier one changes nothing. Safe for concurrent use.
func (c *Crawler) Acknowledge(app string, position int64) error {
	return fmt.Errorf("application %q: %w", app, ErrNoApplication)
}

// DeliveriesChanged returns a channel that is closed when more pages may be there. Get it before Deliveries. Safe for
// concurrent use.
func (c *Crawler) DeliveriesChanged(app string) <-chan struct{} { return make(chan struct{}) }

// An AppState tells how far an application is at this agent.
type AppState struct {
	Name           string `json:"name"`
	Queued         int64  `json:"queued"`         // links that wait
	Fetched        int64  `json:"fetched"`        // URLs that were finished by a visit
	Shared         int64  `json:"shared"`         // URLs whose page came from the archive
	Unacknowledged int64  `json:"unacknowledged"` // pages that were not collected
	Held           bool   `json:"held"`           // its links wait until pages are collected
}

// ApplicationStates returns the states of the applications, by name. Safe for concurrent use.
func (c *Crawler) ApplicationStates() []AppState {
	t := c.apps.table.Load()
	if t == nil {
		return nil
	}
	var states []AppState
	for _, name := range slices.Sorted(maps.Keys(*t)) {
		states = append(states, AppState{Name: name})
	}
	return states
}
