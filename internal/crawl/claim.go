package crawl

import (
	"cmp"
	"time"
)

// A Claim says whether this process may fetch, if its state is in a store: another process may have taken over the
// crawl, and saved states of other agents may have to come first. Safe for concurrent use.
type Claim interface {
	// Unsure returns in words why it may not begin a visit now; "" if it may.
	Unsure() string
	// Held returns in words which states of other agents keep it from a visit; "": none.
	Held() string
	// Unclaimed returns in words which states of other agents no agent continues yet; "": none. They may have links
	// that no agent knows.
	Unclaimed() string
}

// claimed is the Obstacle of a process whose Claim is unsure.
type claimed struct{ by Claim }

func (c claimed) Holds(now time.Time) (bool, time.Time) {
	if c.waits() == "" {
		return false, time.Time{}
	}
	return true, now.Add(lookAgain)
}

func (c claimed) Why(time.Time) Hindrance {
	return Hindrance{Text: "no visit begins: the crawl waits for " + c.waits(), Waits: c.waits(),
		Until: "when the store says that no other process has the crawl"}
}

// waits says what the claim waits for; "": nothing.
func (c claimed) waits() string {
	if c.by == nil {
		return ""
	}
	return c.by.Unsure()
}

// heldBack is the Obstacle of a process that waits for saved states of other agents.
type heldBack struct{ by Claim }

func (c heldBack) Holds(now time.Time) (bool, time.Time) {
	if c.waits() == "" {
		return false, time.Time{}
	}
	return true, now.Add(lookAgain)
}

func (c heldBack) Why(time.Time) Hindrance {
	return Hindrance{Text: "no visit begins: the crawl waits for " + c.waits(), Waits: c.waits(),
		Until: "when the saved states are continued or taken over, or 10 min after the start"}
}

// waits says which states it waits for; "": none.
func (c heldBack) waits() string {
	if c.by == nil {
		return ""
	}
	return c.by.Held()
}

// elsewhere says which saved states may have links that no agent knows; "": none.
func (c heldBack) elsewhere() string {
	if c.by == nil {
		return ""
	}
	return cmp.Or(c.by.Unclaimed(), c.by.Held())
}
