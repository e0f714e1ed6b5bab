// Package applications answers: which applications share the crawl, and which of their links wait, and why?
//
//	operators -> Define -> Heed -> classes of the frontier; links -> Accepted, Left, Finished -> counts
//	finished page -> Deliver -> log (package delivery) -> Deliveries -> Acknowledge
//
// Several applications share one crawl. Each has its own URLs, scope, strategy and share of the requests. A link of an
// application carries its name (link.Link.App), and so do the links of its pages. Its key differs from that of the
// URL. So each application's link is accepted, waits, moves and finishes by itself, like any other link.
//
// The first link to a URL fetches it. The others get the page from the archive: see visit/shared.go.
package applications

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/applications/delivery"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Max is the number of applications that a crawl can have at a time.
const Max = 15

// ErrUnknown reports the name of an application that is not defined.
var ErrUnknown = errors.New("no such application")

// Ending reports whether this agent is ending the run together with all others.
type Ending interface{ Ending() bool }

// A Set has the applications of a crawl, and the pages that they collect. It implements visit.Applications and
// ledger.Participant.
type Set struct {
	Run      *run.Run
	Ledger   *ledger.Ledger
	Frontier *frontier.Frontier
	Pages    *delivery.Store // nil: no pages are collected
	Cluster  Ending
	// MostUncollected bounds the pages of an application that wait to be collected: then its links wait.
	MostUncollected int

	table atomic.Pointer[appTable] // in force; nil: there never were any
	some  atomic.Bool              // there are or were applications, now or in an earlier run

	heldNow atomic.Pointer[map[string]bool] // held, for other goroutines

	mu     sync.Mutex           // guards counts
	counts map[string]*appCount // by name; of removed applications, too

	// The dispatcher owns the fields below.
	heeded  *appTable            // see Heed
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

func (a *Set) Of(name string) *visit.Application { return a.table.Load().of(name) }

func (a *Set) Any() bool { return a.some.Load() }

// All returns the applications that are defined, by name.
func (a *Set) All() (all []*visit.Application) {
	if t := a.table.Load(); t != nil {
		for _, name := range slices.Sorted(maps.Keys(*t)) {
			all = append(all, (*t)[name])
		}
	}
	return all
}

// Held returns the names of the applications whose links wait until pages are collected. Safe for concurrent use.
func (a *Set) Held() []string {
	if held := a.heldNow.Load(); held != nil {
		return slices.Sorted(maps.Keys(*held))
	}
	return nil
}

// Collected reports whether pages of any application are collected.
func (a *Set) Collected() bool { return a.table.Load().collected() }

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

// CheckName returns the error of a name, for people.
func CheckName(name string) error {
	wrong := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.'
	}
	if name == "" || len(name) > 64 || name[0] == '.' || strings.ContainsFunc(name, wrong) {
		return fmt.Errorf("application %q: a name has 1 to 64 characters A-Z, a-z, 0-9, \"-\" and \".\"", name)
	}
	return nil
}

// Define replaces all applications. It returns when the dispatcher heeds them. Safe for concurrent use.
func (a *Set) Define(apps []visit.Application) error {
	if len(apps) > Max {
		return fmt.Errorf("%d applications: at most %d at a time", len(apps), Max)
	}
	t := appTable{}
	for _, app := range apps {
		if err := CheckName(app.Name); err != nil {
			return err
		}
		if app.Scope == nil {
			return fmt.Errorf("application %q has no scope", app.Name)
		}
		t[app.Name] = &app
	}
	for _, app := range apps {
		if app.Pages && a.Pages == nil {
			return fmt.Errorf("application %q: this crawl keeps no pages to be collected", app.Name)
		}
		if app.Pages {
			if _, err := a.Pages.Create(app.Name); err != nil {
				return err
			}
		}
	}
	a.table.Store(&t)
	if len(t) > 0 {
		a.some.Store(true)
	}
	if err := a.Run.Heed(context.Background(), "applications", func(time.Time) { a.Heed() }); err != nil {
		return err
	}
	return a.Pages.Keep(func(name string) bool { app := t.of(name); return app != nil && app.Pages })
}

// Heed lets the dispatcher work with the applications that are in force now, unless the agents are ending the run.
func (a *Set) Heed() {
	t := a.table.Load()
	if t == nil || a.Cluster.Ending() {
		return
	}
	if before := a.heeded; t != before {
		a.heeded = t
		a.remove(before, t)
		a.Run.Stir()
		for name := range *t {
			if a.define(name) { // from now on visits look into the archive, also after a restart
				a.Ledger.Add(state.Application, state.AppendApplication(nil, name, 0, 0))
			}
			delete(a.unknown, name)
		}
		a.Run.Fail(a.Ledger.Append())
	} else if !t.collected() {
		return
	}
	a.hold(t)
}

// remove notes which applications of a table are not in the next one.
func (a *Set) remove(before, next *appTable) {
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
func (a *Set) hold(t *appTable) {
	held := map[string]bool{}
	for name, app := range *t {
		if l := a.Pages.Log(name); app.Pages && l != nil && l.Waiting() >= a.MostUncollected {
			held[name] = true
		}
	}
	if a.classed == t && maps.Equal(held, a.held) {
		return
	}
	a.classed, a.held = t, held
	a.Run.Stir()
	classes := make([]frontier.Class, Max+1)
	for name, app := range *t {
		if n := a.slot(name); n > 0 {
			classes[n] = frontier.Class{Weight: app.Share, Held: held[name]}
		}
	}
	a.Frontier.SetClasses(classes)
	a.heldNow.Store(&held)
}

// UnknownWait is how long links wait for the definition of their application. Orders reach an agent within seconds. But
// a link may come earlier, and an agent that was away may have links of an application that was removed meanwhile.
const UnknownWait = time.Minute

// Without reports whether l belongs to an application that was removed.
func (a *Set) Without(l *link.Link) bool {
	if l.Ext == "" {
		return false
	}
	app := l.App()
	return app != "" && a.table.Load().of(app) == nil
}

// Awaits puts a task back that was just taken from the frontier, if its application is not defined yet. The host
// rests meanwhile.
func (a *Set) Awaits(t *frontier.Task, now time.Time) bool {
	if !a.Without(&t.Link) {
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
	if now.Sub(since) >= UnknownWait {
		return false
	}
	err := a.Frontier.Done(t.Host, frontier.Done{NoRequest: true, Again: &t.Link, Attempt: t.Attempt,
		NotBefore: now.Add(UnknownWait / 12)}, now)
	if err != nil {
		a.Run.Fail(fmt.Errorf("frontier: %w", err))
	}
	return true
}
