package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// joinTimeout bounds the questions of Rehearse.
const joinTimeout = 3 * time.Second

// A Meeting is what Rehearse has found out.
type Meeting struct {
	Join []JoinReply // for each address of --join
	// Coordinators has a reply for each address of --coordinator.
	Coordinators []JoinReply
	// Waits is what the crawl would wait for before it starts, in words; empty: nothing. It would give
	// up after Patience; zero: never.
	Waits    string
	Patience time.Duration
}

// A JoinReply is what answers at an address of --join or --coordinator.
type JoinReply struct {
	Addr string // as given
	Self bool   // the address is the agent's own
	Err  error  // why no agent or no coordinator answers, in few words; nil: one does
}

// Rehearse asks whether agents and coordinators answer at the addresses of --join and --coordinator, and does not
// join. It asks as an agent of another crawl at addr. Agents refuse that, and reserve no name. resume reports that the
// crawl directory has an earlier run. If no agent answers, and what answers will never do as an agent, the error is
// that of a crawl: an *input.ConfigError.
func Rehearse(ctx context.Context, cfg *Config, at Place, addr string, resume bool) (found Meeting, err error) {
	keys, err := cfg.Check(at.FS, at.Clock)
	if err != nil {
		return found, err
	}
	c := newMembership(cfg, at, keys)
	if resume {
		if c.joining.who.Begun, err = c.joining.hasBegun(); err != nil {
			return found, err
		}
	}
	id := newExchangeID()
	c.Members.SetCrawl(id)
	c.Members.Self = gossip.Agent{Name: c.cfg.Name, Capacity: 1, Instance: newExchangeID(), Boot: 1, Addr: addr}
	c.call(keys)
	defer func() { err = errors.Join(err, c.Members.Client.Close()) }()
	c.joining.sortJoin()
	if err := c.joining.onlyItself(); err != nil {
		return found, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	statuses := coordination.NewClient(c.Members.Client, "this agent").AskAll(ctx, c.cfg.Coordinators)
	answered, lasting := c.joining.replies(c.joining.askAll(ctx, c.joining.spread(ctx, c.joining.contacts())), &found)
	if !answered && lasting != nil {
		return found, lasting
	}
	silent, all := len(c.cfg.Coordinators) > 0, <-statuses
	if !answered && c.joining.founder && !resume {
		if err := coordination.Taken(all); err != nil {
			return found, err
		}
	}
	for _, s := range all {
		found.Coordinators = append(found.Coordinators, JoinReply{Addr: s.Addr, Err: s.Err})
		silent = silent && s.Err != nil
	}
	switch {
	case silent && c.joining.who.Begun:
		found.Waits = "a coordinator that answers"
	case silent && (answered || c.joining.founder):
		found.Waits, found.Patience = "a coordinator that answers", beginPatience
	case c.joining.who.Begun:
	case !answered && !c.joining.founder:
		found.Waits, found.Patience = "an agent that answers", joinPatience
	case c.joining.founder && c.cfg.Agents > 1:
		found.Waits, found.Patience = fmt.Sprintf("%d agents to be present", c.cfg.Agents), beginPatience
	}
	return found, nil
}

// replies adds a JoinReply to found for each address of --join. answered reports whether an agent has
// answered; lasting is the first error that would refuse the start.
func (j *joining) replies(all []reply, found *Meeting) (answered bool, lasting error) {
	for _, addr := range j.cfg.Join {
		answer := JoinReply{Addr: addr, Self: !slices.Contains(j.join, addr)}
		for _, p := range all {
			if answer.Self || p.addr != addr && p.of != addr {
				continue
			}
			if _, refused := errors.AsType[*rpc.Refusal](p.err); refused || errors.Is(p.err, rpc.ErrAgain) {
				answer.Err, answered = nil, true
				break
			}
			why := &unanswered{p.addr, p.err}
			answer.Err = errors.New(why.why())
			if rpc.Lasting(p.err) != nil && lasting == nil {
				lasting = unjoined(p.addr, p.err)
			}
		}
		found.Join = append(found.Join, answer)
	}
	return answered, lasting
}

// hasBegun reports whether the agent of a crawl that would continue has crawled before.
func (j *joining) hasBegun() (bool, error) {
	b, err := disk.ReadFile(j.FS, j.path(identityFile), maxIdentity)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var who identity
	if err == nil {
		err = json.Unmarshal(b, &who)
	}
	return who.Begun, err
}
