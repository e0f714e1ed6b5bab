package cluster

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
)

// lostHosts is the condition that this agent may have lost its hosts to other agents. It implements crawl.Obstacle.
type lostHosts struct{ others *Others }

// rightWait is the interval at which an agent without the Right asks for it.
const rightWait = 250 * time.Millisecond

func (o lostHosts) Holds(now time.Time) (held bool, ask time.Time) {
	if o.others.mayVisit(now) {
		return false, time.Time{}
	}
	return true, now.Add(rightWait)
}

func (o lostHosts) Why(time.Time) crawl.Hindrance {
	h := crawl.Hindrance{Text: "this agent may have lost its hosts to other agents",
		Until: "when the agents agree again"}
	if o.others.Coordinators != nil {
		h.Waits = o.others.Coordinators.Waits()
	}
	if h.Waits != "" {
		h.Text += "; it waits for " + h.Waits
	}
	return h
}

// spentShare is the condition that this agent has used its share of the page limit, and other agents have not.
// It implements crawl.Obstacle.
type spentShare struct {
	loop *crawl.Loop
	of   *ration
}

func (o spentShare) Holds(now time.Time) (held bool, ask time.Time) {
	loop, r := o.loop, o.of
	used := loop.Tally.Pages() + int64(loop.Busy())
	switch {
	case !r.shared || used < r.allowed || used >= loop.Config.PageLimit:
		return false, time.Time{}
	case loop.Frontier.Pending() == 0:
		return true, time.Time{} // a ration would change nothing
	}
	return true, now.Add(rationWait)
}

func (o spentShare) Why(time.Time) crawl.Hindrance {
	loop := o.loop
	return crawl.Hindrance{Text: fmt.Sprintf("page limit: this agent has %s, and other agents may fetch the others of "+
		"at most %d", report.Count(loop.Tally.Pages(), "page"), loop.Config.PageLimit),
		Until: "if other agents leave pages over; else with a higher limit",
		Waits: "other agents: the pages that are left up to the limit are theirs"}
}
