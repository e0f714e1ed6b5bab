package cluster

import (
	"maps"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/report"
)

// tookPage counts a page of so many bytes that another agent has sent. Only the dispatcher calls it.
func (x *exports) tookPage(from string, size int64) {
	x.pages++
	if x.from == nil {
		x.from = map[string]report.PagesFrom{}
	}
	n := x.from[from]
	x.from[from] = report.PagesFrom{Agent: from, Pages: n.Pages + 1, Bytes: n.Bytes + size}
}

// pagesFrom returns the counts of tookPage, by agent. Only the dispatcher calls it.
func (x *exports) pagesFrom() []report.PagesFrom {
	return slices.SortedFunc(maps.Values(x.from), func(a, b report.PagesFrom) int {
		return strings.Compare(a.Agent, b.Agent)
	})
}
