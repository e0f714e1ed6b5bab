package crawl

import (
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
)

// countKept counts a page that this agent keeps by its category, unless the response before is in this archive, too.
func (c *Crawler) countKept(v *visit.Attempt) {
	before := v.Plan().Before
	if v.Boundary().Topic == "" || !c.hasPage(v) || before != nil && before.Original.ID != [16]byte{} {
		return
	}
	if c.topics == nil {
		c.topics = map[string]int64{}
	}
	c.topics[v.Boundary().Topic]++
}

// countCategories adds to the categories of this agent how many pages of each it keeps, and the others that it keeps
// pages of.
func (c *Crawler) countCategories(list []report.Category) []report.Category {
	for i := range list {
		list[i].Pages = c.topics[list[i].Name]
	}
	for name, pages := range c.topics {
		if !slices.ContainsFunc(list, func(k report.Category) bool { return k.Name == name }) {
			list = append(list, report.Category{Name: name, Pages: pages})
		}
	}
	slices.SortFunc(list, func(a, b report.Category) int { return strings.Compare(a.Name, b.Name) })
	return list
}
