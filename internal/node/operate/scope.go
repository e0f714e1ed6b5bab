package operate

import (
	"context"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// Scoping is the scope of this agent. Safe for concurrent use.
type Scoping interface {
	// Scope tells the scope that is in force, without the orders.
	Scope() *pb.ScopeResponse
}

func (o *Operator) Scope(context.Context, *pb.ScopeRequest) (*pb.ScopeResponse, error) {
	r := o.agent.Scope()
	for _, s := range o.orders.Standing() {
		switch s.Verb {
		case verbs.VerbScope:
			n, err := strconv.Atoi(s.Value)
			if err == nil && s.About == verbs.AboutDepth && (r.Depth < 0 || n < int(r.Depth)) {
				r.Depth = int32(n)
			}
		case verbs.VerbExclude, verbs.VerbSeed:
		default:
			continue
		}
		r.Changes = append(r.Changes, &pb.ScopeChange{Order: s.ID(), Text: verbs.Text(s), Why: s.Why})
	}
	return r, nil
}
