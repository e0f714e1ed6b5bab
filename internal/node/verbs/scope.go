package verbs

import (
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
)

// The verbs of orders that the calls ChangeScope and AddSeeds give. An order to scope is about one of the subjects
// below. An order of seeds extends the scope by URLs with spaces between them.
const (
	VerbScope = "scope"
	VerbSeed  = "seed"
)

// The subjects of an order to scope, before its argument. An order about the depth has it as its value.
const (
	AboutHost    = "host "
	AboutDomain  = "domain "
	AboutInclude = "include "
	AboutDepth   = "depth"
)

// NoDepth is the value of an order that removes the limit of the depth.
const NoDepth = "none"

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
		case VerbExclude:
			a.Excludes = append(a.Excludes, Exclude{Pattern: o.About, Deeper: -1, Order: o})
		case VerbScope:
			a.scope(o)
		}
	}
	return a
}

// scope adds an order to scope. It ignores what another version may have given.
func (a *Amendment) scope(o orders.Order) {
	if host, ok := strings.CutPrefix(o.About, AboutHost); ok {
		a.Hosts = append(a.Hosts, host)
	} else if domain, ok := strings.CutPrefix(o.About, AboutDomain); ok {
		a.Domains = append(a.Domains, domain)
	} else if pattern, ok := strings.CutPrefix(o.About, AboutInclude); ok {
		a.Include = append(a.Include, pattern)
	} else if o.About == AboutDepth {
		depth := -1
		if n, err := strconv.Atoi(o.Value); err == nil && n >= 0 {
			depth = n
			a.Excludes = append(a.Excludes, Exclude{Deeper: n, Order: o})
		} else if o.Value != NoDepth {
			return
		}
		a.Depth = &depth
	}
}

// SeedURLs returns the URLs by which the orders that stand extend the scope.
func SeedURLs(standing []orders.Order) (urls []string) {
	for _, o := range standing {
		if o.Verb == VerbSeed {
			urls = append(urls, strings.Fields(o.About)...)
		}
	}
	return urls
}
