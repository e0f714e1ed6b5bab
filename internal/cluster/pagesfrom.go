package cluster

import (
	"maps"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/report"
)

// tookPage counts a page of so many bytes that another agent has sent. Only the dispatcher calls it.
func (cl *Clustered) tookPage(from string, size int64) {
	r := &cl.exports
	r.pages++
	if r.pagesFrom == nil {
		r.pagesFrom = map[string]report.PagesFrom{}
	}
	n := r.pagesFrom[from]
	r.pagesFrom[from] = report.PagesFrom{Agent: from, Pages: n.Pages + 1, Bytes: n.Bytes + size}
}

// pagesFrom returns the counts of tookPage, by agent. Only the dispatcher calls it.
func (cl *Clustered) pagesFrom() []report.PagesFrom {
	return slices.SortedFunc(maps.Values(cl.exports.pagesFrom), func(a, b report.PagesFrom) int {
		return strings.Compare(a.Agent, b.Agent)
	})
}
