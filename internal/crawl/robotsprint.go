package crawl

import (
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/robots"
)

// heedRobots drops what this agent knows of the robots.txt of v's origin if another agent has read something else
// since. Then the visit reads it again before it asks for anything. A robots.txt that cannot be reached stays as it is:
// it forbids everything, and keeps the time of the next try.
func (c *Crawler) heedRobots(v *visit) {
	if v.task.Robots == 0 {
		return
	}
	e, ok := c.Robots.Entry(v.task.Link.URL.Origin())
	if ok && e.Class != robots.ClassUnreachable && e.Print() != v.task.Robots {
		c.Robots.Forget(v.task.Link.URL)
	}
}

// robotsRead returns what v has read of the robots.txt of its host, for the agents that crawl the host next.
func (v *visit) robotsRead() (p frontier.RobotsPrint) {
	if len(v.entries) == 0 || IsErrand(v.task.Link) {
		return p
	}
	return frontier.RobotsPrint{Origin: v.entries[0].Origin, Print: v.entries[0].Print()}
}
