package local

import (
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// Scoping tells the scope of the crawl. It implements operate.Scoping.
type Scoping struct{ Of *scope.Scope }

func (s Scoping) Scope() *pb.ScopeResponse {
	d := s.Of.Describe()
	return &pb.ScopeResponse{Kind: d.Kind.String(), Seeds: d.Seeds, Include: d.Include, Exclude: d.Exclude,
		Depth: int32(d.Depth), HostDepth: int32(d.HostDepth)}
}
