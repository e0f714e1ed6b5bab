package verbs

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
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

const (
	// MaxApplications bounds the applications that are in force.
	MaxApplications = 15
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

// Applications returns the applications that the orders that stand define, by name. All agents with the same orders
// have the same ones in force.
func Applications(standing []orders.Order) []Application {
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
		case inForce == MaxApplications:
			a.Error = fmt.Sprintf("%d earlier applications are in force; remove one of them", MaxApplications)
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

// OrderedApplication returns what an order that defines an application says, without its patterns, which orders of
// their own have. ok is false for another order, and for one that this version cannot read.
func OrderedApplication(o *pb.Order) (a *pb.Application, ok bool) {
	if o.GetVerb() != VerbApp || o.GetOff() {
		return nil, false
	}
	app := Application{Name: o.GetAbout()}
	if json.Unmarshal([]byte(o.GetValue()), &app) != nil || app.Check() != nil {
		return nil, false
	}
	return app.Wire(), true
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

// AddState adds the counts of an application at an agent to sum.
func AddState(sum, s *pb.ApplicationState) {
	sum.Queued += s.GetQueued()
	sum.Fetched += s.GetFetched()
	sum.Shared += s.GetShared()
	sum.Unacknowledged += s.GetUnacknowledged()
	sum.Held = sum.Held || s.GetHeld()
}
