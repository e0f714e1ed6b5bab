package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// exclude keeps all agents from URLs that match a pattern.
var exclude = Verb{
	Name: VerbExclude, Done: "excluded", Preview: true,
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

func (excludeRules) check(standing []orders.Order, about string) error {
	return CheckTogether(standing, about)
}

func (excludeRules) describe(o orders.Order, _ []orders.Order) string {
	if o.Off {
		return "not excluded any more: " + o.About
	}
	return "excluded: " + o.About
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

// CheckTogether returns an error for people if some patterns are too large beside those of the orders that stand.
func CheckTogether(standing []orders.Order, patterns ...string) error {
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
			return err
		}
	}
	return nil
}
