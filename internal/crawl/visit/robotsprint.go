package visit

import (
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/robots"
)

// printElsewhere stands for a robots.txt on another host. Agents do not compare it: a visit of that host reads it, and
// cannot tell the agents of this one what it says. It is less than the prints of rules, see robots.Entry.Print.
const printElsewhere = 2

// heedRobots drops what this agent knows of the robots.txt of v's origin if another agent has read something else
// since. Then the visit reads it again before it asks for anything. A robots.txt that cannot be reached stays as it is:
// it forbids everything, and keeps the time of the next try.
func (p *Pool) heedRobots(v *Attempt) {
	if v.Task.Robots == 0 || v.Task.Robots == printElsewhere {
		return
	}
	e, ok := p.Robots.Entry(v.Task.Link.URL.Origin())
	if ok && e.Class != robots.ClassUnreachable && e.Print() != v.Task.Robots {
		p.Robots.Forget(v.Task.Link.URL)
	}
}

// RobotsRead returns what v has read of the robots.txt of its host, for the agents that crawl the host next.
func (v *Attempt) RobotsRead() (p frontier.RobotsPrint) {
	switch {
	case v.Outcome == Elsewhere:
		return frontier.RobotsPrint{Origin: v.Task.Link.URL.Origin(), Print: printElsewhere}
	case len(v.Robots.Entries) == 0 || IsErrand(v.Task.Link):
		return p
	}
	return frontier.RobotsPrint{Origin: v.Robots.Entries[0].Origin, Print: v.Robots.Entries[0].Print()}
}
