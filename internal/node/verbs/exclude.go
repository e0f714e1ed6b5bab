package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// exclude keeps all agents from URLs that match a pattern.
var exclude = Verb{
	Name: VerbExclude, Role: Operator, Done: "excluded", Preview: true,
	Brief: "Set links aside whose URLs match a pattern.",
	Words: "pattern",
	About: "Exclude URLs that this regular expression matches, as with --exclude.",
	Help: `No agent begins a visit of a URL that matches, also after a restart, and neither do
agents that join later. Links that match are set aside, those that wait and those
that are found later. None is lost: "orbweaver ctl take-back ID" returns them to
the queue.

  orbweaver ctl exclude '/calendar/' --preview
  orbweaver ctl exclude '/calendar/' --why "a trap"`,
	Note: "Links that match are set aside until this is taken back.", Example: "/calendar/",
	rules: excludeRules{},
}

// excludeRules are the rules of exclusions.
type excludeRules struct{ usual }

func (excludeRules) subject(text string) (string, error) { return text, CheckPattern(text) }

func (excludeRules) check(_ Agent, standing []orders.Order, about string) error {
	return checkTogether(standing, about)
}

func (excludeRules) describe(o orders.Order, _ []orders.Order) string {
	if o.Off {
		return "not excluded any more: " + o.About
	}
	return "excluded: " + o.About
}

func (excludeRules) apply(ctx context.Context, f *Force, _ []orders.Order) error {
	return f.Crawl.Exclude(ctx, slices.Concat(f.amendment.Excludes, f.OtherExclusions))
}

// VerbExclude is the verb of orders about a pattern of URLs.
const VerbExclude = "exclude"

// Include returns the order that takes back the exclusion of a pattern, or the exclusion with an id. ok is false if
// none stands.
func Include(standing []orders.Order, text string) (off orders.Order, ok bool) {
	for _, o := range standing {
		if o.Verb == VerbExclude && (o.About == text || o.ID() == text) {
			return orders.Order{Verb: o.Verb, About: o.About, Off: true}, true
		}
	}
	return off, false
}

// CheckPattern returns an error for people if a pattern is wrong.
func CheckPattern(p string) error {
	switch {
	case p == "":
		return errors.New("no pattern: give a regular expression, such as /calendar/")
	case len(p) > orders.MaxAbout:
		return fmt.Errorf("a pattern of %d bytes: give at most %d", len(p), orders.MaxAbout)
	}
	return cmp.Or(sheet.CheckSize(p), sheet.CheckPattern(p))
}

// checkTogether returns an error for people if a pattern is too large beside those of the orders that stand.
func checkTogether(standing []orders.Order, pattern string) error {
	a := Amendments(standing)
	has := a.Include
	for _, x := range a.Excludes {
		has = append(has, x.Pattern)
	}
	if slices.Contains(has, pattern) {
		return nil
	}
	var sizes sheet.Sizes
	for _, p := range has {
		_ = sizes.Add(p) // it fits, or it would not be in force
	}
	return sizes.Add(pattern)
}
