package standing

import (
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// Applications are those that the orders define. ID and Check are safe for concurrent use.
type Applications struct {
	crawlScope scope.Config
	walks      bool
	defined    []verbs.Application // Orders.turn guards it
	ids        atomic.Pointer[map[string]string]
}

// set puts the applications of the orders that stand in force.
func (a *Applications) set(c Crawl, standing []orders.Order) error {
	defined := verbs.Applications(standing)
	if reflect.DeepEqual(defined, a.defined) {
		return nil
	}
	var apps []visit.Application
	ids := map[string]string{}
	var sizes sheet.Sizes
	for _, d := range defined {
		s, err := a.scope(d, &sizes)
		if d.Error != "" || err != nil { // another version has given the order
			continue
		}
		ids[d.Name] = d.ID()
		apps = append(apps, visit.Application{Name: d.ID(), Share: d.Share, Scope: s, Pages: d.Pages,
			Follow: d.Strategy == verbs.StrategyFollow})
	}
	if err := c.SetApplications(apps); err != nil {
		return err
	}
	a.defined = defined
	a.ids.Store(&ids)
	return nil
}

// ID returns the name under which the crawl knows an application; the name itself if it is not in force.
func (a *Applications) ID(name string) string {
	if ids := a.ids.Load(); ids != nil && (*ids)[name] != "" {
		return (*ids)[name]
	}
	return name
}

// scope returns the scope of an application's links. What the settings of the crawl exclude stays out. sizes
// has the patterns of other applications.
func (a *Applications) scope(d verbs.Application, sizes *sheet.Sizes) (*scope.Scope, error) {
	if err := addPatterns(sizes, d); err != nil {
		return nil, err
	}
	cfg := a.crawlScope
	var err error
	if cfg.Scope, err = scope.ParseKind(d.Scope); err != nil {
		return nil, fmt.Errorf("scope %w", err)
	}
	cfg.Include, cfg.Depth = d.Include, nil
	cfg.Exclude = append(cfg.Exclude[:len(cfg.Exclude):len(cfg.Exclude)], d.Exclude...)
	if d.Depth >= 0 {
		cfg.Depth = &d.Depth
	}
	return scope.New(cfg, nil)
}

// check returns the error of a scope or of patterns, beside the orders that stand.
func (a *Applications) check(d verbs.Application, standing []orders.Order) error {
	if a.walks {
		return fmt.Errorf("a crawl with --strategy walk has no applications: its walkers choose the pages")
	}
	var sizes sheet.Sizes
	for _, other := range verbs.Applications(standing) {
		if other.Name != d.Name {
			_ = addPatterns(&sizes, other) // one that does not fit is not in force
		}
	}
	_, err := a.scope(d, &sizes)
	return err
}

// CheckApplication implements operate.Apps.
func (s *Orders) CheckApplication(d verbs.Application) error {
	return s.Applications.check(d, s.set.Standing())
}

// addPatterns adds the patterns of an application.
func addPatterns(sizes *sheet.Sizes, d verbs.Application) error {
	for _, kind := range []struct {
		name  string
		exprs []string
	}{{"include", d.Include}, {"exclude", d.Exclude}} {
		for i, p := range kind.exprs {
			if err := sizes.Add(p); err != nil {
				return fmt.Errorf("%s %d of %d: %w", kind.name, i+1, len(kind.exprs), err)
			}
		}
	}
	return nil
}
