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

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/delivery"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/link"
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

// Applications are the applications of a crawl, and the pages that they collect. They implement visit.Applications.
type Applications struct {
	cfg      *Config
	run      *run.Run
	ledger   *ledger.Ledger
	cluster  *Cluster
	frontier *frontier.Frontier
	delivery *delivery.Store // nil: no pages are collected

	table atomic.Pointer[appTable] // in force; nil: there never were any
	some  atomic.Bool              // there are or were applications, now or in an earlier run

	heldNow atomic.Pointer[map[string]bool] // held, for other goroutines

	mu     sync.Mutex           // guards counts
	counts map[string]*appCount // by name; of removed applications, too

	// The dispatcher owns the fields below.
	heeded  *appTable            // see heed
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

func (a *Applications) Of(name string) *visit.Application { return a.table.Load().of(name) }

func (a *Applications) Any() bool { return a.some.Load() }

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

// set does what Orders.SetApplications says.
func (a *Applications) set(apps []visit.Application) error {
	if len(apps) > MaxApplications {
		return fmt.Errorf("%d applications: at most %d at a time", len(apps), MaxApplications)
	}
	t := appTable{}
	for _, app := range apps {
		if err := CheckApplicationName(app.Name); err != nil {
			return err
		}
		if app.Scope == nil {
			return fmt.Errorf("application %q has no scope", app.Name)
		}
		t[app.Name] = &app
	}
	for _, app := range apps {
		if app.Pages && a.delivery == nil {
			return fmt.Errorf("application %q: this crawl keeps no pages to be collected", app.Name)
		}
		if app.Pages {
			if _, err := a.delivery.Create(app.Name); err != nil {
				return err
			}
		}
	}
	a.table.Store(&t)
	if len(t) > 0 {
		a.some.Store(true)
	}
	if err := a.run.Heed(context.Background(), "applications", func(time.Time) { a.heed() }); err != nil {
		return err
	}
	return a.delivery.Keep(func(name string) bool { app := t.of(name); return app != nil && app.Pages })
}

// heed lets the dispatcher work with the applications that are in force now, unless the agents are ending the run.
func (a *Applications) heed() {
	t := a.table.Load()
	if t == nil || a.cluster.ending() {
		return
	}
	if before := a.heeded; t != before {
		a.heeded = t
		a.remove(before, t)
		a.run.Stir()
		for name := range *t {
			if a.define(name) { // from now on visits look into the archive, also after a restart
				a.ledger.Add(state.Application, state.AppendApplication(nil, name, 0, 0))
			}
			delete(a.unknown, name)
		}
		a.run.Fail(a.ledger.Append())
	} else if !t.collected() {
		return
	}
	a.hold(t)
}

// remove notes which applications of a table are not in the next one.
func (a *Applications) remove(before, next *appTable) {
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
func (a *Applications) hold(t *appTable) {
	held := map[string]bool{}
	for name, app := range *t {
		if l := a.delivery.Log(name); app.Pages && l != nil && l.Waiting() >= a.cfg.Uncollected {
			held[name] = true
		}
	}
	if a.classed == t && maps.Equal(held, a.held) {
		return
	}
	a.classed, a.held = t, held
	a.run.Stir()
	classes := make([]frontier.Class, MaxApplications+1)
	for name, app := range *t {
		if n := a.slot(name); n > 0 {
			classes[n] = frontier.Class{Weight: app.Share, Held: held[name]}
		}
	}
	a.frontier.SetClasses(classes)
	a.heldNow.Store(&held)
}

// unknownWait is how long links wait for the definition of their application. Orders reach an agent within seconds. But
// a link may come earlier, and an agent that was away may have links of an application that was removed meanwhile.
const unknownWait = time.Minute

// without reports whether l belongs to an application that was removed.
func (a *Applications) without(l *link.Link) bool {
	if l.Ext == "" {
		return false
	}
	app := l.App()
	return app != "" && a.table.Load().of(app) == nil
}

// awaits puts a task back that was just taken from the frontier, if its application is not defined yet. The host
// rests meanwhile.
func (a *Applications) awaits(t *frontier.Task, now time.Time) bool {
	if !a.without(&t.Link) {
		return false
	}
	app := t.Link.App()
	if a.removed[app] {
		return false
	}
	since, ok := a.unknown[app]
	if !ok {
		if a.unknown == nil {
			a.unknown = map[string]time.Time{}
		}
		since = now
		a.unknown[strings.Clone(app)] = now
	}
	if now.Sub(since) >= unknownWait {
		return false
	}
	err := a.frontier.Done(t.Host, frontier.Done{NoRequest: true, Again: &t.Link, Attempt: t.Attempt,
		NotBefore: now.Add(unknownWait / 12)}, now)
	if err != nil {
		a.run.Fail(fmt.Errorf("frontier: %w", err))
	}
	return true
}
