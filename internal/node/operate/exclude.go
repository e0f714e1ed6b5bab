package operate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// Scoping is the scope of this agent. Safe for concurrent use.
type Scoping interface {
	// CheckPattern returns the error of a regular expression, for people.
	CheckPattern(pattern string) error
	// CheckHost returns the canonical form of a host name. The error is for people.
	CheckHost(host string) (string, error)
	// Scope tells the scope that is in force, without the orders.
	Scope() *pb.ScopeResponse
}

// The verbs of orders about the scope. An order to exclude is about a pattern. An order to scope is about "host NAME",
// "domain NAME", "include PATTERN", or "depth", with the depth as its value.
const (
	verbExclude = "exclude"
	verbScope   = "scope"
)

// The subjects of an order to scope, before its argument.
const (
	aboutHost    = "host "
	aboutDomain  = "domain "
	aboutInclude = "include "
	aboutDepth   = "depth"
)

// noDepth is the value of an order that removes the limit of the depth.
const noDepth = "none"

// An Amendment is what the orders that stand change of the scope.
type Amendment struct {
	Seeds, Hosts, Domains, Include []string
	Depth                          *int // negative: no limit
	Excludes                       []Exclude
}

// An Exclude keeps the crawl from URLs that match a pattern or, if it is empty, from those deeper than Deeper.
type Exclude struct {
	Pattern string
	Deeper  int
	Order   orders.Order
}

// Amendments returns what the orders that stand change of the scope.
func Amendments(standing []orders.Order) (a Amendment) {
	a.Seeds = SeedURLs(standing)
	for _, o := range standing {
		switch o.Verb {
		case verbExclude:
			a.Excludes = append(a.Excludes, Exclude{Pattern: o.About, Deeper: -1, Order: o})
		case verbScope:
			a.scope(o)
		}
	}
	return a
}

// scope adds an order to scope. It ignores what another version may have given.
func (a *Amendment) scope(o orders.Order) {
	if host, ok := strings.CutPrefix(o.About, aboutHost); ok {
		a.Hosts = append(a.Hosts, host)
	} else if domain, ok := strings.CutPrefix(o.About, aboutDomain); ok {
		a.Domains = append(a.Domains, domain)
	} else if pattern, ok := strings.CutPrefix(o.About, aboutInclude); ok {
		a.Include = append(a.Include, pattern)
	} else if o.About == aboutDepth {
		depth := -1
		if n, err := strconv.Atoi(o.Value); err == nil && n >= 0 {
			depth = n
			a.Excludes = append(a.Excludes, Exclude{Deeper: n, Order: o})
		} else if o.Value != noDepth {
			return
		}
		a.Depth = &depth
	}
}

// Include returns the order that takes back the exclusion of a pattern, or the exclusion with an id. ok is false if
// none stands.
func Include(standing []orders.Order, text string) (off orders.Order, ok bool) {
	for _, o := range standing {
		if o.Verb == verbExclude && (o.About == text || o.ID() == text) {
			return orders.Order{Verb: o.Verb, About: o.About, Off: true}, true
		}
	}
	return off, false
}

// pattern returns an error if a pattern is wrong.
func (o *Operator) pattern(p string) error {
	if p == "" {
		return problem(connect.CodeInvalidArgument, "no pattern: give a regular expression, such as /calendar/")
	}
	if len(p) > orders.MaxAbout {
		return problem(connect.CodeInvalidArgument, "a pattern of %d bytes: give at most %d", len(p), orders.MaxAbout)
	}
	if err := o.agent.CheckPattern(p); err != nil {
		return problem(connect.CodeInvalidArgument, "%v", err)
	}
	return nil
}

// checkTogether returns an error if some patterns are too large beside those of the orders that stand.
func checkTogether(standing []orders.Order, patterns ...string) error {
	a := Amendments(standing)
	has := a.Include
	for _, x := range a.Excludes {
		if x.Pattern != "" {
			has = append(has, x.Pattern)
		}
	}
	var sizes sheet.Sizes
	for _, p := range has {
		_ = sizes.Add(p) // one that does not fit is not in force
	}
	for _, p := range patterns {
		if slices.Contains(has, p) {
			continue
		}
		if err := sizes.Add(p); err != nil {
			return problem(connect.CodeFailedPrecondition, "%v", err)
		}
	}
	return nil
}

// Exclude implements pb.OperatorHandler.
func (o *Operator) Exclude(ctx context.Context, q *pb.ExcludeRequest) (*pb.ExcludeResponse, error) {
	if err := o.pattern(q.Pattern); err != nil {
		return nil, err
	}
	if err := checkTogether(o.orders.Standing(), q.Pattern); err != nil {
		return nil, err
	}
	given, answers, err := o.give(ctx, orders.Order{Verb: verbExclude, About: q.Pattern, Why: q.Why}, "")
	return &pb.ExcludeResponse{Order: given.GetId(), Told: told(answers)}, err
}

// Scope implements pb.OperatorHandler.
func (o *Operator) Scope(context.Context, *pb.ScopeRequest) (*pb.ScopeResponse, error) {
	r := o.agent.Scope()
	for _, s := range o.orders.Standing() {
		c := &pb.ScopeChange{Order: s.ID(), Why: s.Why}
		switch s.Verb {
		case verbExclude:
			c.Text = "exclude " + s.About
		case verbSeed:
			c.Text = "seeds " + s.About
		case verbScope:
			c.Text = strings.TrimSpace(s.About + " " + s.Value)
			n, err := strconv.Atoi(s.Value)
			if err == nil && s.About == aboutDepth && (r.Depth < 0 || n < int(r.Depth)) {
				r.Depth = int32(n)
			}
		default:
			continue
		}
		r.Changes = append(r.Changes, c)
	}
	return r, nil
}

// ChangeScope implements pb.OperatorHandler.
func (o *Operator) ChangeScope(ctx context.Context, q *pb.ChangeScopeRequest) (*pb.ChangeScopeResponse, error) {
	list, err := o.scopeOrders(q)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, problem(connect.CodeInvalidArgument, "no change: give a depth, hosts, domains or patterns")
	}
	for i := range list {
		list[i].Verb, list[i].Why = verbScope, q.Why
	}
	given, answers, err := o.giveAll(ctx, list, "")
	if err != nil {
		return nil, err
	}
	return &pb.ChangeScopeResponse{Orders: ids(given), Told: told(answers)}, nil
}

// scopeOrders returns the orders of a change. All of it is checked before any order is given.
func (o *Operator) scopeOrders(q *pb.ChangeScopeRequest) (list []orders.Order, err error) {
	twice := map[string]bool{} // a value that is given twice is one order
	add := func(about string) {
		if !twice[about] {
			list, twice[about] = append(list, orders.Order{About: about}), true
		}
	}
	for i, name := range append(q.Hosts[:len(q.Hosts):len(q.Hosts)], q.Domains...) {
		about := aboutHost
		if i >= len(q.Hosts) {
			about = aboutDomain
		}
		host, err := o.agent.CheckHost(strings.TrimPrefix(name, "*."))
		if err != nil {
			return nil, problem(connect.CodeInvalidArgument, "%v", err)
		}
		add(about + host)
	}
	if len(q.Include) > 0 && len(o.agent.Scope().Include) == 0 {
		return nil, problem(connect.CodeFailedPrecondition, "the crawl has no include patterns: all links within the "+
			"scope pass. Use an exclusion to keep links out")
	}
	for _, p := range q.Include {
		if err := o.pattern(p); err != nil {
			return nil, err
		}
		add(aboutInclude + p)
	}
	if err := checkTogether(o.orders.Standing(), q.Include...); err != nil {
		return nil, err
	}
	if q.Depth != "" {
		if n, err := strconv.ParseUint(q.Depth, 10, 16); err == nil {
			q.Depth = fmt.Sprint(n)
		} else if q.Depth != noDepth {
			return nil, problem(connect.CodeInvalidArgument, "depth %.80q: give a number of links from 0 to 65535, or "+
				"%q for no limit", q.Depth, noDepth)
		}
		list = append(list, orders.Order{About: aboutDepth, Value: q.Depth})
	}
	return list, nil
}
