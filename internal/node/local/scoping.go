package local

import (
	"cmp"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// Scoping tells the scope of the crawl. It implements operate.Scoping.
type Scoping struct{ Of *scope.Scope }

// CheckPattern implements operate.Scoping.
func (Scoping) CheckPattern(pattern string) error {
	return cmp.Or(sheet.CheckSize(pattern), sheet.CheckPattern(pattern))
}

// CheckHost implements operate.Scoping.
func (Scoping) CheckHost(host string) (string, error) { return input.Host(host) }

// Scope implements operate.Scoping.
func (s Scoping) Scope() *pb.ScopeResponse {
	d := s.Of.Describe()
	return &pb.ScopeResponse{Kind: d.Kind.String(), Seeds: d.Seeds, Include: d.Include, Exclude: d.Exclude,
		Depth: int32(d.Depth), HostDepth: int32(d.HostDepth)}
}
