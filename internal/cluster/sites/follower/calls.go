package follower

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/known"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/sites"
	"github.com/orbweaver/orbweaver/internal/coordination"
)

// Calls are the calls of a Follower. They block as those of an rpc.Peer do, and have the same errors. Safe for
// concurrent use.
type Calls interface {
	// Follow, Discover and Finish call the coordinator at an address; see coordinator.Client.
	Follow(ctx context.Context, addr string, q coordinator.Follow) (coordinator.Followed, error)
	Discover(ctx context.Context, addr string, hosts []string, how assignment.How) ([]coordinator.HostAnswer, error)
	Finish(ctx context.Context, addr string, term, number uint64) error
	// Meet returns nil when the agent that a member describes has answered.
	Meet(ctx context.Context, m assignment.Member) error
}

// Peers are Calls to the coordinators and agents that a Members reaches.
type Peers struct{ *members.Members }

func (c Peers) at(addr string) coordinator.Client {
	return coordinator.Client{Peer: c.Client.Coordinator(addr)}
}

func (c Peers) Follow(ctx context.Context, addr string, q coordinator.Follow) (coordinator.Followed, error) {
	return c.at(addr).Follow(ctx, q)
}

func (c Peers) Discover(ctx context.Context, addr string, hosts []string, how assignment.How) ([]coordinator.HostAnswer,
	error) {
	return c.at(addr).Discover(ctx, hosts, how)
}

func (c Peers) Finish(ctx context.Context, addr string, term, number uint64) error {
	return c.at(addr).Finish(ctx, term, number)
}

func (c Peers) Meet(ctx context.Context, m assignment.Member) error {
	_, err := known.Call.Ask(ctx, c.Client.Peer(m.Name, m.Addr), known.Request(0))
	return err
}

func (f *Follower) Follow(ctx context.Context, addr string, q sites.Question) (sites.Answer, error) {
	for {
		state, changes := f.wanted()
		ask := coordinator.Follow{From: q.From, Wait: rpc.MaxFollow, Stamp: q.Stamp, Group: q.Group,
			Report: f.report(state, q)}
		if state == assignment.Joining {
			ask.Wait = 0 // the next question says that the agent is up
		}
		call, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			select {
			case <-changes:
				cancel()
			case <-done:
			}
		}()
		ans, err := f.cfg.Calls.Follow(call, addr, ask)
		again := call.Err() != nil && ctx.Err() == nil // the question told an old state
		close(done)
		cancel()
		if err != nil && again {
			continue
		}
		if err != nil {
			return sites.Answer{}, f.translate(addr, err)
		}
		if rpc.ID(ans.Crawl) != f.cfg.Members.Crawl() {
			return sites.Answer{}, fmt.Errorf("%w: %s serves crawl %s, and this agent belongs to crawl %s; start the "+
				"coordinators with new directories, or give the directory of an agent of their crawl",
				sites.ErrRefused, addr, rpc.ID(ans.Crawl), f.cfg.Members.Crawl())
		}
		f.heardOf(state)
		if state == assignment.Joining && ans.Last+1 == q.From {
			f.want(assignment.Up) // this agent has read all that was decided before
		}
		return sites.Answer{Entries: ans.Entries, Last: ans.Last, Term: ans.Term, Member: ans.Member,
			Stamp: ans.Stamp, Group: ans.Group}, nil
	}
}

// report returns what this agent tells about itself.
func (f *Follower) report(state assignment.State, q sites.Question) coordinator.Report {
	self := f.cfg.Members.Self
	r := coordinator.Report{Capacity: self.Capacity, Addr: self.Addr, State: state, Term: q.Term,
		Heard: map[string]time.Duration{}, Settings: f.cfg.Settings}
	for _, k := range q.Contacts {
		r.Heard[k.Agent] = k.Silent
	}
	r.Hosts, r.URLs = f.cfg.Agent.Waiting()
	return r
}

// translate returns an error of a call to a coordinator as package sites wants it.
func (f *Follower) translate(addr string, err error) error {
	if n, ok := errors.AsType[*rpc.NotLeader](err); ok {
		return &sites.NotLeader{Leader: n.Leader}
	}
	if r, ok := errors.AsType[*rpc.Refusal](err); ok {
		// The others may pass: an agent of the same name that was lost, coordinators that are started anew.
		if slices.Contains([]string{"crawl", "settings", "full", "report"}, r.Reason) {
			return fmt.Errorf("%w: %s: %w", sites.ErrRefused, addr, r)
		}
		return r
	}
	if errors.Is(err, rpc.ErrAgain) {
		return errors.New("it says to ask again later")
	}
	return errors.New(coordination.Unanswered("this agent", err))
}

func (f *Follower) Discover(ctx context.Context, addr string, hosts []string, how assignment.How) ([]sites.Decision,
	error) {
	vs := make([]sites.Decision, len(hosts))
	ways := []assignment.How{how}
	if how == assignment.LookedUp {
		ways = append(ways, assignment.Unchecked)
	}
	for _, way := range ways {
		var its []string
		var at []int
		for i, host := range hosts {
			if len(ways) == 1 || f.cfg.Agent.Unchecked(host) == (way == assignment.Unchecked) {
				its, at = append(its, host), append(at, i)
			}
		}
		if len(its) == 0 {
			continue
		}
		as, err := f.cfg.Calls.Discover(ctx, addr, its, way)
		if err != nil {
			return nil, f.translate(addr, err)
		}
		for i, a := range as {
			switch v := &vs[at[i]]; a.State {
			case coordinator.HostAssigned:
				v.State = sites.Assigned
			case coordinator.HostDead:
				*v = sites.Decision{State: sites.Dead, After: a.After}
			default:
				v.State = sites.Coming
			}
		}
	}
	return vs, nil
}
