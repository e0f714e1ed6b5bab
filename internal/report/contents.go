package report

import "math"

// Contents counts the messages with which agents find duplicate pages. Each page's content hash belongs to one agent,
// and one question per page asks that agent whether another page had the content first. A question takes about a
// hundred bytes. WouldExport is what the alternative scheme would have moved, which sends the pages themselves.
type Contents struct {
	Pages      int64 `json:"pages"`      // pages with a content hash
	Elsewhere  int64 `json:"elsewhere"`  // of these: the hash belongs to another agent
	Recent     int64 `json:"recent"`     // answered from the contents that this agent saw recently
	Asked      int64 `json:"asked"`      // questions to other agents
	Messages   int64 `json:"messages"`   // calls that carried these questions
	Duplicates int64 `json:"duplicates"` // pages whose content another page had first
	Waited     int64 `json:"waited"`     // pages that waited until another page with the content was archived
	Unanswered int64 `json:"unanswered"` // pages that counted as new because no answer came
	Told       int64 `json:"told"`       // pages archived in full and reported to another agent
	Untold     int64 `json:"untold"`     // pages archived in full that could not be reported to any agent

	Bytes          int64   `json:"content_bytes"`      // of all pages
	WouldExport    int64   `json:"would_export_bytes"` // of the pages whose hash belongs to another agent
	ElsewhereShare float64 `json:"elsewhere_share"`    // Elsewhere/Pages; (n-1)/n is expected of n equal agents
}

// Share sets ElsewhereShare to Elsewhere/Pages; 0 without pages.
func (c *Contents) Share() {
	if c.ElsewhereShare = 0; c.Pages > 0 {
		c.ElsewhereShare = math.Round(float64(c.Elsewhere)/float64(c.Pages)*1e4) / 1e4
	}
}

// A Category counts the pages of a category that an agent keeps, in this run.
type Category struct {
	Name  string `json:"name"`
	Here  bool   `json:"here"`  // pages of the category, or some of them, belong to this agent
	Pages int64  `json:"pages"` // a new version counts again if another agent sent it, or had the one before
}

// Boundary counts the pages that agents send to each other because they divide pages by content, in this run.
type Boundary struct {
	Waiting int64 `json:"waiting"` // stored for other agents, now
	Taken   int64 `json:"taken"`   // from other agents
	Again   int64 `json:"again"`   // pages of other agents that this one had already
	Damaged int64 `json:"damaged"` // pages for other agents that could not be read, and are fetched again
	Refused int64 `json:"refused"` // pages that the agents where they belong refused; this agent keeps them if it can
	// From counts the pages in Taken by the agents that have sent them, by name.
	From []PagesFrom `json:"from,omitempty"`
}

// A PagesFrom counts the pages that an agent has taken from another one, in this run.
type PagesFrom struct {
	Agent string `json:"agent"`
	Pages int64  `json:"pages"`
	Bytes int64  `json:"bytes"` // of the responses, with their headers
}
