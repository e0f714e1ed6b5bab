package operate

import (
	"cmp"
	"slices"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// changed returns the application that a request asks for.
func changed(a verbs.Application, q *pb.SetApplicationRequest) verbs.Application {
	if q.Share != nil {
		a.Share = *q.Share
	}
	if q.Scope != nil {
		a.Scope = *q.Scope
	}
	if q.Depth != nil {
		a.Depth = int(*q.Depth)
	}
	if q.Strategy != nil {
		a.Strategy = *q.Strategy
	}
	if q.Pages != nil {
		a.Pages = *q.Pages
	}
	if q.Include != nil {
		a.Include = q.Include.Patterns
	}
	if q.Exclude != nil {
		a.Exclude = q.Exclude.Patterns
	}
	return a
}

// defined returns the application with a name that the orders define. The error is that of a call.
func (o *Operator) defined(name string) (verbs.Application, error) {
	apps := verbs.ApplicationOrders(o.orders.Standing())
	if i := slices.IndexFunc(apps, func(a verbs.Application) bool { return a.Name == name }); i >= 0 {
		return apps[i], nil
	}
	if name == "" {
		return verbs.Application{}, problem(connect.CodeInvalidArgument, "no application: give its name")
	}
	return verbs.Application{}, problem(connect.CodeNotFound, "there is no application %.80q; \"orbweaver ctl app "+
		"NAME\" defines one, \"orbweaver ctl apps\" lists them", name)
}

// inForce is defined for an application that must be in force.
func (o *Operator) inForce(name string) (verbs.Application, error) {
	a, err := o.defined(name)
	if err == nil && a.Error != "" {
		err = problem(connect.CodeFailedPrecondition, "application %s is not in force: %s", name, a.Error)
	}
	return a, err
}

// byName sorts the states of agents.
func byName(a, b *pb.ApplicationState) int { return cmp.Compare(a.Agent, b.Agent) }
