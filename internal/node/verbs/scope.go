package verbs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// scopeOrder changes the scope at all agents. An order is about one of the subjects below.
var scopeOrder = Verb{
	Name: VerbScope, Role: Operator, Done: "in the scope by an order",
	Words: "what-and-value",
	About: "Also follow links to a host (host NAME), to a domain with all hosts below it (domain NAME), or that " +
		"match a pattern, in a crawl with --include (include PATTERN); or follow so many links from a seed (depth N).",
	Note:    "Pages that were fetched before are not searched again for links that a larger scope lets in.",
	Example: "host www.example.org",
	rules:   scopeRules{},
	Valued:  true,
}

// seed extends the scope by URLs, which an order has with spaces between them. The scope puts its orders in force.
var seed = Verb{Name: VerbSeed, Role: Operator, Call: "AddSeeds", Done: "seeds by an order",
	Note: "The scope is extended by these URLs.", rules: usual{}}

// The verbs of orders about the scope.
const (
	VerbScope = "scope"
	VerbSeed  = "seed"
)

// The subjects of an order to scope, before its argument. An order about the depth has it as its value.
const (
	aboutHost    = "host "
	aboutDomain  = "domain "
	aboutInclude = "include "
	AboutDepth   = "depth"
)

// noDepth is the value of an order that removes the limit of the depth.
const noDepth = "none"

// scopeRules are the rules of orders to scope.
type scopeRules struct{ usual }

func (scopeRules) split(words []string) (about, value string) {
	if words[0] == AboutDepth {
		return AboutDepth, strings.Join(words[1:], " ")
	}
	return strings.Join(words, " "), ""
}

func (scopeRules) subject(text string) (string, error) {
	what, rest, _ := strings.Cut(text, " ")
	switch what + " " {
	case aboutHost, aboutDomain:
		host, err := input.Host(strings.TrimPrefix(strings.TrimSpace(rest), "*."))
		return what + " " + host, err
	case aboutInclude:
		return text, CheckPattern(rest)
	}
	if text != AboutDepth {
		return "", fmt.Errorf("scope %.80q: give host, domain or include with its argument, or depth", text)
	}
	return text, nil
}

func (scopeRules) plan(about, text string) (string, error) {
	switch n, err := strconv.ParseUint(text, 10, 16); {
	case about != AboutDepth && text != "":
		return "", fmt.Errorf("scope %s has no value; leave out %.80q", about, text)
	case about != AboutDepth || text == noDepth:
		return text, nil
	case err != nil:
		return "", fmt.Errorf("depth %.80q: give a number of links from 0 to 65535, or %q for no limit", text, noDepth)
	default:
		return fmt.Sprint(n), nil
	}
}

func (scopeRules) check(at Agent, standing []orders.Order, about string) error {
	pattern, ok := strings.CutPrefix(about, aboutInclude)
	switch {
	case !ok:
		return nil
	case len(at.Scope().Include) == 0:
		return errors.New("the crawl has no include patterns: all links within the scope pass. Use an exclusion to " +
			"keep links out")
	}
	return checkTogether(standing, pattern)
}

func (scopeRules) text(o orders.Order) string {
	return named(o, "") + " " + strings.TrimSpace(o.About+" "+o.Value)
}

func (r scopeRules) describe(o orders.Order, _ []orders.Order) string {
	if o.Off {
		return "not in the scope any more: " + o.About
	}
	return "scope changed: " + strings.TrimSpace(o.About+" "+o.Value)
}

// apply changes the scope by these orders and those of seeds.
func (scopeRules) apply(_ context.Context, f *Force, _ []orders.Order) error {
	return f.Crawl.Amend(f.amendment.Amendment)
}

// An Amendment is what the orders that stand change of the scope.
type Amendment struct {
	scope.Amendment
	Excludes []crawl.Exclusion
}

// Amendments returns what the orders that stand change of the scope. Another agent may have given them without our
// checks: all agents leave out the same patterns, and seeds that are no URLs.
func Amendments(standing []orders.Order) (a Amendment) {
	for _, text := range SeedURLs(standing) {
		if u, err := weburl.Parse(text); err == nil {
			a.Seeds = append(a.Seeds, u)
		}
	}
	var sizes sheet.Sizes
	for _, o := range standing {
		p, ok := strings.CutPrefix(o.About, aboutInclude)
		if ok && o.Verb == VerbScope && sizes.Add(p) == nil {
			a.Include = append(a.Include, p)
		}
	}
	for _, o := range standing {
		switch {
		case o.Verb == VerbScope:
			a.scope(o)
		case o.Verb == VerbExclude && sizes.Add(o.About) == nil:
			a.Excludes = append(a.Excludes, crawl.Exclusion{Pattern: o.About, Deeper: -1, Why: reason(o)})
		}
	}
	return a
}

// scope adds an order to scope that has no pattern. It ignores what another version may have given.
func (a *Amendment) scope(o orders.Order) {
	if host, ok := strings.CutPrefix(o.About, aboutHost); ok {
		a.Hosts = append(a.Hosts, host)
	} else if domain, ok := strings.CutPrefix(o.About, aboutDomain); ok {
		a.Domains = append(a.Domains, domain)
	} else if o.About == AboutDepth {
		depth := -1
		if n, err := strconv.Atoi(o.Value); err == nil && n >= 0 {
			depth = n
			a.Excludes = append(a.Excludes, crawl.Exclusion{Deeper: n, Why: reason(o)})
		} else if o.Value != noDepth {
			return
		}
		a.Depth = &depth
	}
}

// reason names an order as the reason for what keeps links waiting, for people.
func reason(o orders.Order) string {
	return fmt.Sprintf("order %s, %s", o.ID(), strings.TrimSpace(o.About+" "+o.Value))
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
