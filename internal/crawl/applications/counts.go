package applications

import (
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// ClassOf returns the class of a link in the frontier: 0 for the crawl's own links, and from 1 to Max for
// those of an application. It is for frontier.Config. Only the dispatcher may call it.
func (a *Set) ClassOf(l *link.Link) uint8 {
	if l.Ext == "" {
		return 0
	}
	app := l.App()
	if app == "" {
		return 0
	}
	return a.slot(app)
}

// slot returns the class of an application. The name keeps it. If no class is left, a new name gets that of a removed
// application without waiting links, or else that of the crawl's own links.
func (a *Set) slot(app string) uint8 {
	if n, ok := a.slots[app]; ok {
		return n
	}
	used := [Max + 1]bool{true}
	for _, n := range a.slots {
		used[n] = true
	}
	n := slices.Index(used[:], false)
	if n < 0 {
		n = int(a.reclaim())
	}
	if a.slots == nil {
		a.slots = map[string]uint8{}
	}
	a.slots[strings.Clone(app)] = uint8(n)
	return uint8(n)
}

// reclaim takes a class from a removed application without waiting links, and returns it; 0 if there is none.
func (a *Set) reclaim() uint8 {
	for name, n := range a.slots {
		if n > 0 && a.heeded.of(name) == nil && a.table.Load().of(name) == nil && a.of(name).queued <= 0 {
			delete(a.slots, name)
			return n
		}
	}
	return 0
}

// An appCount counts the links of an application at this agent. fetched and shared are of all runs: a snapshot has
// them, and the finishes after it count on.
type appCount struct {
	queued, fetched, shared int64
	before                  Earlier
}

// count calls fn with the counts of an application.
func (a *Set) count(app string, fn func(n *appCount)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.counts[app]
	if n == nil {
		if a.counts == nil {
			a.counts = map[string]*appCount{}
		}
		n = new(appCount)
		a.counts[strings.Clone(app)] = n
	}
	fn(n)
}

// of returns the counts of an application.
func (a *Set) of(app string) appCount {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.counts[app]; n != nil {
		return *n
	}
	return appCount{}
}

// define reports whether an application is new to this crawl.
func (a *Set) define(app string) (isNew bool) {
	a.mu.Lock()
	_, known := a.counts[app]
	a.mu.Unlock()
	a.count(app, func(*appCount) {})
	return !known
}

// Accepted counts a link that this agent will crawl.
func (a *Set) Accepted(l *link.Link) {
	if l.Ext == "" {
		return
	}
	if app := l.App(); app != "" {
		a.count(app, func(n *appCount) { n.queued++ })
	}
}

// Left counts a link that this agent no longer has to crawl.
func (a *Set) Left(l *link.Link) {
	if l.Ext == "" {
		return
	}
	if app := l.App(); app != "" {
		a.count(app, func(n *appCount) { n.queued-- })
	}
}

// Finished counts a finish. This run has not counted the link of a finish of an earlier run among those that wait.
func (a *Set) Finished(f *state.Finish, before bool) {
	if f.Link.Ext == "" || f.IsRobots() {
		return
	}
	app := f.Link.App()
	if app == "" {
		return
	}
	a.count(app, func(n *appCount) {
		if !before {
			n.queued--
		}
		switch {
		case f.IsShared():
			n.shared++
		case !f.Dropped():
			n.fetched++
		}
		if before {
			n.before = Earlier{n.fetched + n.shared, n.shared}
		}
	})
}

// Save writes the counts into a checkpoint.
func (a *Set) Save(put func(kind byte, p []byte) error, _ time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for app, n := range a.counts {
		if err := put(state.Application, state.AppendApplication(nil, app, n.fetched, n.shared)); err != nil {
			return err
		}
	}
	return nil
}

func (a *Set) Kinds() []ledger.Kind {
	return []ledger.Kind{{Kind: state.Application, Name: "application"}}
}

// Load reads the counts of an application. A later record only says that it exists.
func (a *Set) Load(_ byte, p []byte) error {
	app, fetched, shared, err := state.DecodeApplication(p)
	if err != nil {
		return err
	}
	a.some.Store(true)
	if isNew := a.define(app); isNew {
		a.count(app, func(n *appCount) {
			n.fetched, n.shared, n.before = fetched, shared, Earlier{fetched + shared, shared}
		})
	}
	return nil
}
