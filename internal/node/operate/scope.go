package operate

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// Scoping is the scope of this agent. Safe for concurrent use.
type Scoping interface {
	// Scope tells the scope that is in force, without the orders.
	Scope() *pb.ScopeResponse
}

// Scope implements pb.OperatorHandler.
func (o *Operator) Scope(context.Context, *pb.ScopeRequest) (*pb.ScopeResponse, error) {
	r := o.agent.Scope()
	for _, s := range o.orders.Standing() {
		c := &pb.ScopeChange{Order: s.ID(), Why: s.Why}
		switch s.Verb {
		case verbs.VerbExclude:
			c.Text = "exclude " + s.About
		case verbs.VerbSeed:
			c.Text = "seeds " + s.About
		case verbs.VerbScope:
			c.Text = strings.TrimSpace(s.About + " " + s.Value)
			n, err := strconv.Atoi(s.Value)
			if err == nil && s.About == verbs.AboutDepth && (r.Depth < 0 || n < int(r.Depth)) {
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
		list[i].Verb, list[i].Why = verbs.VerbScope, q.Why
	}
	given, answers, err := o.giveAll(ctx, list, "")
	if err != nil {
		return nil, err
	}
	return &pb.ChangeScopeResponse{Orders: ids(given), Told: answers}, nil
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
		about := verbs.AboutHost
		if i >= len(q.Hosts) {
			about = verbs.AboutDomain
		}
		host, err := input.Host(strings.TrimPrefix(name, "*."))
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
		if err := verbs.CheckPattern(p); err != nil {
			return nil, problem(connect.CodeInvalidArgument, "%v", err)
		}
		add(verbs.AboutInclude + p)
	}
	if err := verbs.CheckTogether(o.orders.Standing(), q.Include...); err != nil {
		return nil, problem(connect.CodeFailedPrecondition, "%v", err)
	}
	if q.Depth != "" {
		if n, err := strconv.ParseUint(q.Depth, 10, 16); err == nil {
			q.Depth = fmt.Sprint(n)
		} else if q.Depth != verbs.NoDepth {
			return nil, problem(connect.CodeInvalidArgument, "depth %.80q: give a number of links from 0 to 65535, or "+
				"%q for no limit", q.Depth, verbs.NoDepth)
		}
		list = append(list, orders.Order{About: verbs.AboutDepth, Value: q.Depth})
	}
	return list, nil
}
