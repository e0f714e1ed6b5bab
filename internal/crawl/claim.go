package crawl

import "time"

// A Claim says whether this process may fetch, if another one may have taken over the crawl. Safe for concurrent use.
type Claim interface {
	// Unsure returns in words why it may not begin a visit now; "" if it may.
	Unsure() string
}

// claimed is the Obstacle of a process whose Claim is unsure.
type claimed struct{ by Claim }

func (c claimed) Holds(now time.Time) (bool, time.Time) {
	if c.by == nil || c.by.Unsure() == "" {
		return false, time.Time{}
	}
	return true, now.Add(lookAgain)
}

func (c claimed) Why(time.Time) Hindrance {
	text := c.by.Unsure()
	return Hindrance{Text: text, Until: "when the store says that no other process has the crawl", Waits: text}
}
