package verbs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// pageLimit bounds the pages of a host, or of each host of a domain, in place of --host-page-limit and of the settings
// of hosts.
var pageLimit = Verb{
	Name: verbPageLimit, Role: Operator, Done: "given a page limit by an order",
	Brief: "Fetch at most so many pages of a host, or of each host of a domain.",
	Words: "host-and-pages",
	About: "Name a host, or a domain such as \"*.example.org\"; then the most pages to fetch of each host, such as " +
		"5000; 0 is no limit.",
	Help: `The limit holds in place of --host-page-limit, until "orbweaver ctl take-back" of
the order. Pages are 2xx responses, and those of all runs and agents count. When
a host has so many, its other links are skipped, and skipped.jsonl has them. They
do not return when the order is taken back. With --partition topic or hash, each
agent counts its own pages.

  orbweaver ctl page-limit www.example.org 5000 --why "a calendar without end"
  orbweaver ctl page-limit '*.example.org' 200`,
	Note: "Further links of a host that has so many pages are skipped.", Example: "www.example.org 5000",
	rules:  pageLimitRules{},
	Valued: true,
}

const verbPageLimit = "page-limit"

// pageLimitRules are the rules of page limits.
type pageLimitRules struct{ usual }

func (pageLimitRules) split(words []string) (about, value string) {
	return words[0], strings.Join(words[1:], " ")
}

func (pageLimitRules) subject(text string) (string, error) {
	about, wide, err := input.About(text)
	if err == nil && wide && !strings.HasPrefix(about, "*.") {
		err = fmt.Errorf("%s: a page limit is for a host or a domain; give one such as www.example.org", about)
	}
	return about, err
}

func (pageLimitRules) plan(about, text string) (string, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return "", fmt.Errorf("%s: %.80q is not a number of pages; give one such as 5000, or 0 for no limit", about,
			text)
	}
	return fmt.Sprint(n), nil
}

func (pageLimitRules) describe(o orders.Order, _ []orders.Order) string { return sets(o, "page limit") }

// apply lays the limits over the settings of hosts. An order that this version cannot read counts as none.
func (pageLimitRules) apply(_ context.Context, f *Force, standing []orders.Order) error {
	var entries []sheet.Entry
	var ids []string
	for _, o := range standing {
		if o.Verb != verbPageLimit {
			continue
		}
		ids = append(ids, o.ID())
		limit := sheet.Setting{Key: "host-page-limit", Values: []string{o.Value}}
		e := sheet.Entry{Prefix: o.About, Settings: []sheet.Setting{limit}}
		if _, err := sheet.New([]sheet.Entry{e}); err == nil {
			entries = append(entries, e)
		}
	}
	if slices.Equal(f.limited, ids) { // a table of many limits takes long to make
		return nil
	}
	limits, err := sheet.New(entries)
	if err == nil {
		f.settings.Sheets.Lay(limits)
		f.limited = ids
	}
	return err
}
