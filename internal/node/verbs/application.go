package verbs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// The verbs of orders that define applications. An order app is about a name, and its value is the JSON of an
// Application. An order app-rule is about "NAME include PATTERN" or "NAME exclude PATTERN".
const (
	VerbApp     = "app"
	VerbAppRule = "app-rule"
)

// The subjects of an order app-rule, after the name.
const (
	ruleInclude = "include"
	ruleExclude = "exclude"
)

// application defines an application.
var application = Verb{Name: VerbApp, Role: Operator, Call: "SetApplication", Done: "an application",
	Note: "Applications have URLs, a scope and a share of the crawl of their own.", rules: applicationRules{}}

// applicationRule adds a pattern to an application, which puts it in force.
var applicationRule = Verb{Name: VerbAppRule, Role: Operator, Call: "SetApplication", Done: "a rule of an application",
	Note: "The application includes or excludes links that match a pattern.", rules: usual{}}

// applicationRules are the rules of applications.
type applicationRules struct{ usual }

// replaces returns the patterns of an application that is removed.
func (applicationRules) replaces(o orders.Order, standing []orders.Order) (rules []orders.Order) {
	for _, s := range standing {
		if o.Off && s.Verb == VerbAppRule && strings.HasPrefix(s.About, o.About+" ") {
			rules = append(rules, s)
		}
	}
	return rules
}

func (r applicationRules) text(o orders.Order) string {
	a := Application{Name: o.About}
	if o.Off || json.Unmarshal([]byte(o.Value), &a) != nil || a.Check() != nil {
		return r.usual.text(o)
	}
	return o.Verb + " " + o.About + ": " + Describe(a.Wire())
}

func (r applicationRules) describe(o orders.Order, _ []orders.Order) string {
	if o.Off {
		return o.About + ": removed"
	}
	return r.text(o)
}

func (applicationRules) apply(_ context.Context, f *Force, standing []orders.Order) error {
	return f.Applications.set(f.Crawl, standing)
}

const (
	// appRules bounds the patterns of one application.
	appRules = 100
	// minShare and maxShare bound Application.Share. The frontier knows no smaller one than 1/1024.
	minShare = 0.001
	maxShare = 1000
)

// The strategies of an application.
const (
	StrategyFollow = "follow"
	StrategyList   = "list"
)

// An Application is what the orders that stand say of one. The JSON has what fits into the value of an order.
type Application struct {
	Name     string   `json:"-"`
	Share    float64  `json:"share"`
	Scope    string   `json:"scope"`
	Depth    int      `json:"depth"` // -1: no limit
	Strategy string   `json:"strategy"`
	Pages    bool     `json:"pages"`
	Made     string   `json:"made"` // differs from that of an earlier application with this name
	Include  []string `json:"-"`
	Exclude  []string `json:"-"`

	Order orders.Order `json:"-"`
	// Error says why the application is not in force, for people; empty: it is.
	Error string `json:"-"`
}

// NewApplication returns an application with the default values.
func NewApplication(name string) Application {
	return Application{Name: name, Share: 1, Scope: "host", Depth: -1, Strategy: StrategyFollow, Made: rand.Text()[:10]}
}

// ApplicationOrders returns the applications that the orders that stand define, by name. All agents with the same
// orders have the same ones in force.
func ApplicationOrders(standing []orders.Order) []Application {
	var apps []Application
	inForce := 0
	for _, o := range standing {
		if o.Verb != VerbApp {
			continue
		}
		a := Application{Name: o.About, Order: o}
		switch err := json.Unmarshal([]byte(o.Value), &a); {
		case err != nil || a.Check() != nil:
			a.Error = "this version cannot read the order"
		case inForce == applications.Max:
			a.Error = fmt.Sprintf("%d earlier applications are in force; remove one of them", applications.Max)
		default:
			inForce++
		}
		apps = append(apps, a)
	}
	for _, o := range standing {
		name, rest, _ := strings.Cut(o.About, " ")
		i := slices.IndexFunc(apps, func(a Application) bool { return a.Name == name })
		if o.Verb != VerbAppRule || i < 0 {
			continue
		}
		a := &apps[i]
		switch kind, text, _ := strings.Cut(rest, " "); kind {
		case ruleInclude:
			a.Include = append(a.Include, text)
		case ruleExclude:
			a.Exclude = append(a.Exclude, text)
		}
	}
	slices.SortFunc(apps, func(a, b Application) int { return strings.Compare(a.Name, b.Name) })
	return apps
}

// CheckApplicationName returns an error for people if an application cannot have the name.
func CheckApplicationName(name string) error {
	wrong := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	if name == "" || len(name) > 32 || strings.ContainsFunc(name, wrong) || name[0] == '-' {
		return fmt.Errorf("application %.80q: give a name of 1 to 32 of the characters a-z, 0-9 and -, such as news",
			name)
	}
	return nil
}

// Check returns an error for people if the numbers or words are wrong.
func (a *Application) Check() error {
	switch {
	case !(a.Share > 0) || a.Share > maxShare:
		return fmt.Errorf("share %g: give a number above 0, up to %d; the crawl's own links have 1", a.Share, maxShare)
	case a.Depth < -1 || a.Depth > math.MaxUint16:
		return fmt.Errorf("depth %d: give a number of links from 0 to 65535, or -1 for no limit", a.Depth)
	case a.Strategy != StrategyFollow && a.Strategy != StrategyList:
		return fmt.Errorf("strategy %.80q: give follow, or list for only the URLs that it is given", a.Strategy)
	case strings.Trim(a.Made, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" || len(a.Made) > 26:
		return fmt.Errorf("made %.80q: not a text of this program", a.Made)
	case len(a.Include)+len(a.Exclude) > appRules:
		return fmt.Errorf("%d patterns: give at most %d of include and exclude together",
			len(a.Include)+len(a.Exclude), appRules)
	case slices.ContainsFunc(append(a.Include[:len(a.Include):len(a.Include)], a.Exclude...),
		func(p string) bool { return len(p) > orders.MaxAbout }):
		return fmt.Errorf("a pattern has more than %d bytes", orders.MaxAbout)
	case a.Strategy == StrategyList && len(a.Include) > 0:
		return fmt.Errorf("include: with strategy list no links are followed; leave the patterns out")
	}
	return nil
}

// CheckShare returns an error for people if a share is out of its bounds.
func CheckShare(share float64) error {
	if !(share >= minShare) || share > maxShare {
		return fmt.Errorf("share %g: give a number from %g to %d; the crawl's own links have 1", share, minShare,
			maxShare)
	}
	return nil
}

// ID returns the name under which the crawl knows the application. That of an earlier application with the same Name is
// another one, so links that are still under way for that application do not become those of this one.
func (a *Application) ID() string { return a.Name + idSeparator + a.Made }

// NameOf returns the Name of the application with an ID.
func NameOf(id string) string {
	name, _, _ := strings.Cut(id, idSeparator)
	return name
}

// idSeparator is in no name.
const idSeparator = "."

// Value returns the value of the order app.
func (a *Application) Value() string {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err) // check lets no number pass that JSON does not have
	}
	return string(b)
}

// Rules returns the subjects of the orders app-rule.
func (a *Application) Rules() (abouts []string) {
	for _, p := range a.Include {
		abouts = append(abouts, a.Name+" "+ruleInclude+" "+p)
	}
	for _, p := range a.Exclude {
		abouts = append(abouts, a.Name+" "+ruleExclude+" "+p)
	}
	return abouts
}

// Wire returns an application as callers see it.
func (a *Application) Wire() *pb.Application {
	return &pb.Application{Name: a.Name, Share: a.Share, Scope: a.Scope, Include: a.Include, Exclude: a.Exclude,
		Depth: int32(a.Depth), Strategy: a.Strategy, Pages: a.Pages, Order: a.Order.ID(),
		Why: a.Order.Why, Error: a.Error}
}

// Describe returns what an application is in a few words.
func Describe(a *pb.Application) string {
	parts := []string{fmt.Sprintf("share %g", a.GetShare()), "strategy " + a.GetStrategy()}
	if a.GetStrategy() == StrategyFollow {
		parts = append(parts, "scope "+a.GetScope())
		if a.GetDepth() >= 0 {
			parts = append(parts, fmt.Sprintf("depth %d", a.GetDepth()))
		}
	}
	for _, p := range a.GetInclude() {
		parts = append(parts, "include "+p)
	}
	for _, p := range a.GetExclude() {
		parts = append(parts, "exclude "+p)
	}
	if a.GetPages() {
		parts = append(parts, "pages are kept")
	}
	return strings.Join(parts, ", ")
}

// AddState adds the counts of an application at an agent to sum.
func AddState(sum, s *pb.ApplicationState) {
	sum.Queued += s.GetQueued()
	sum.Fetched += s.GetFetched()
	sum.Shared += s.GetShared()
	sum.Unacknowledged += s.GetUnacknowledged()
	sum.Held = sum.Held || s.GetHeld()
}

// Applications are those that the orders define. ID and Check are safe for concurrent use.
type Applications struct {
	crawlScope scope.Config
	walks      bool
	defined    []Application // only Force.Apply uses it
	ids        atomic.Pointer[map[string]string]
}

// set puts the applications of the orders that stand in force.
func (a *Applications) set(c Crawl, standing []orders.Order) error {
	defined := ApplicationOrders(standing)
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
			Follow: d.Strategy == StrategyFollow})
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
func (a *Applications) scope(d Application, sizes *sheet.Sizes) (*scope.Scope, error) {
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

// Check returns the error of a scope or of patterns, beside the orders that stand.
func (a *Applications) Check(d Application, standing []orders.Order) error {
	if a.walks {
		return fmt.Errorf("a crawl with strategy walk has no applications: its walkers choose the pages")
	}
	var sizes sheet.Sizes
	for _, other := range ApplicationOrders(standing) {
		if other.Name != d.Name {
			_ = addPatterns(&sizes, other) // one that does not fit is not in force
		}
	}
	_, err := a.scope(d, &sizes)
	return err
}

// addPatterns adds the patterns of an application.
func addPatterns(sizes *sheet.Sizes, d Application) error {
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
