package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/local"
)

// leaveWithin bounds the time in which a leaving agent hands its hosts to others. Programs have half of it to collect
// the pages of applications.
const leaveWithin = 10 * time.Minute

// Leave makes this agent hand all its hosts to the other agents and then end. It returns
// when the handoff has started, with a message for the operator. Run then ends with the
// stop reason Left, after at most ten minutes. Safe for concurrent use.
func (a *Agent) Leave(ctx context.Context) (string, error) {
	return member{a}.leave(ctx, leaveWithin, leaveWithin/2)
}

// leave is Leave within a time. Programs have the time collect to collect the pages of applications.
func (m member) leave(ctx context.Context, within, collect time.Duration) (string, error) {
	a := m.a
	c := a.membership
	if c == nil {
		return "", errors.New("this crawl has a single agent, so no other agent can take its hosts; stop it instead")
	}
	if !c.HasBegun() {
		return "", errors.New("the crawl has not started yet; try again later")
	}
	if text, err := a.endsAlready(); text != "" || err != nil {
		return text, err
	}
	others, err := c.Leave(ctx, within, collect)
	if errors.Is(err, crawl.ErrNotRunning) {
		text, ended := a.endsAlready()
		if text == "" && ended == nil { // the status is not that late
			ended = errors.New("the agent ends already")
		}
		return text, ended
	} else if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s hands its hosts to the other agents (%d), then ends", c.Members.Self.Name, others)
	if pages := local.Uncollected(a.crawler.Applications.States()); pages != "" {
		text += fmt.Sprintf("; programs have %s to collect %s here, and what is left then is fetched again by other "+
			"agents", collect, pages)
	}
	return text, nil
}

// endsAlready returns what to tell an operator who wants an agent to leave that ends anyway. Both are zero if it does
// not end.
func (a *Agent) endsAlready() (text string, err error) {
	s := a.Status()
	if s == nil {
		return "", nil
	}
	switch s.Stop {
	case "":
		return "", nil
	case crawl.Left:
		return a.membership.Members.Self.Name + " has handed its hosts to the other agents, and ends", nil
	case crawl.Finished:
		return "", errors.New("the crawl has finished, and the agent ends: it has no hosts to hand over")
	}
	return "", fmt.Errorf("the agent ends already (%s) and keeps its hosts; to let it leave, "+
		"resume it first", s.Stop)
}
