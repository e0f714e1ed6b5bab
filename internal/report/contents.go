package report

import (
	"math"

	"github.com/dustin/go-humanize"
)

// Contents counts what it took to share out contents by their hash: one page, one
// question whether another page had its content first. The question is of some
// hundred octets; WouldExport is what the scheme would have moved that carries the
// pages themselves to the agents of their contents, and crossed no wire.
type Contents struct {
	Pages      int64 `json:"pages"`      // with a content to be asked for
	Elsewhere  int64 `json:"elsewhere"`  // of these: whose content is another agent's to judge
	Recent     int64 `json:"recent"`     // answered by what was met here lately
	Asked      int64 `json:"asked"`      // of other agents
	Messages   int64 `json:"messages"`   // calls that carried these
	Duplicates int64 `json:"duplicates"` // whose content another page had first
	Waited     int64 `json:"waited"`     // for another page with the content to be archived
	Unanswered int64 `json:"unanswered"` // taken for new, for want of an answer
	Told       int64 `json:"told"`       // pages archived in full that other agents were told of
	Untold     int64 `json:"untold"`     // pages archived in full that no agent could be told of

	Bytes          int64   `json:"content_bytes"`      // of the pages
	WouldExport    int64   `json:"would_export_bytes"` // of those of other agents' contents
	ElsewhereShare float64 `json:"elsewhere_share"`    // of the pages; expected, with n equal agents: (n-1)/n
}

// Share divides what is elsewhere by all pages.
func (c *Contents) Share() {
	if c.ElsewhereShare = 0; c.Pages > 0 {
		c.ElsewhereShare = math.Round(float64(c.Elsewhere)/float64(c.Pages)*1e4) / 1e4
	}
}

// rows are c's lines on the terminal.
func (c *Contents) rows(row func(name, format string, a ...any)) {
	if c == nil {
		return
	}
	row("contents asked for", "%s", humanize.Comma(c.Pages))
	row("  at other agents", "%s", humanize.Comma(c.Elsewhere))
	row("  duplicates", "%s", humanize.Comma(c.Duplicates))
	if c.Unanswered > 0 {
		row("  unanswered", "%s", humanize.Comma(c.Unanswered))
	}
}
