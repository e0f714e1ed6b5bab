package node

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// An agent that ends in order has its archive: after "ctl leave", and after a stop, a full disk or a limit. The others
// hear that it has ended by gossip (gossip.View.Ended), and keep that in identityFile. So an agent that was away, or
// restarts, knows it: from its own disk, or from the first agent that it meets.
//
// An agent that leaves for good tells it to each other agent before it ends, and waits until it is durable there. So it
// does not matter when an heir restarts. An agent that was away hears it by gossip, also if another agent has the name
// by then. An agent that is stopped does not wait: if no agent hears that it ends, it
// counts as lost until it is back.

// leftMethod is the method of the Operation by which an agent says that it leaves for good, with its archive. Request
// and response are empty.
const leftMethod = "Left"

// An ending is how an agent has ended: its last start, and whether it has left for good.
type ending struct {
	Boot uint64 `json:"boot"`
	Left bool   `json:"left,omitempty"`
}

// endings are the agents that have ended in order and are not back, by their instances in hexadecimal digits. Safe for
// concurrent use.
type endings struct {
	mu      sync.Mutex // guards durable
	durable map[string]ending
}

// gossip returns the endings that an earlier run has heard of, for gossip. It ignores what no agent has written.
func (e *endings) gossip() (es []gossip.Ending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, how := range e.durable {
		if instance, err := rpc.ParseID(id); err == nil {
			es = append(es, gossip.Ending{Life: gossip.Life{Instance: instance, Boot: how.Boot}, Left: how.Left})
		}
	}
	return es
}

// endingsIn returns the endings in a view.
func endingsIn(v *gossip.View) map[string]ending {
	all := map[string]ending{}
	for _, e := range v.Ended {
		all[rpc.ID(e.Instance).String()] = ending{e.Boot, e.Left}
	}
	return all
}

// kept notes that endings are durable.
func (e *endings) kept(durable map[string]ending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.durable = durable
}

// left answers an agent of a view that says that it leaves for good. It returns nil if that is durable.
func (e *endings) left(m *gossip.Member, from rpc.Caller) error {
	if a, ok := m.View().Agent(from.Name); !ok || a.Instance != from.Instance || a.Boot != from.Boot {
		return rpc.ErrAgain
	}
	e.mu.Lock()
	durable := e.durable[from.Instance.String()] == ending{from.Boot, true}
	e.mu.Unlock()
	if durable {
		return nil
	}
	m.Leaves(gossip.Life{Instance: from.Instance, Boot: from.Boot}) // a change of the view, which recall keeps
	return rpc.ErrAgain
}

// hasLeft reports whether an agent has left for good.
func hasLeft(v *gossip.View, s handoff.Source) bool {
	return v != nil && endingsIn(v)[rpc.ID(s.Instance).String()].Left
}

// A fate is what an agent knows of an archive.
type fate uint8

const (
	unknown fate = iota
	// kept: its agent is there, or has ended in order.
	kept
	// lost: its agent has gone without a word, or another one has its name. An agent that was stopped and comes back
	// with a new directory has lost its archive; one that has left for good has not.
	lost
)

// fateOf returns what is known of an archive, of which handoff.Source.Archive is the name. v may be nil.
func fateOf(v *gossip.View, of string) fate {
	if v == nil {
		return unknown
	}
	agent, instance := folderAgent(of)
	is := func(a gossip.Agent) bool {
		return a.Name == agent && hex.EncodeToString(a.Instance[:4]) == instance
	}
	now, named := v.Agent(agent)
	replaced := named && !is(now)
	if isThere(v, of) {
		return kept
	}
	for id, how := range endingsIn(v) {
		if strings.HasPrefix(id, instance) && (how.Left || !replaced) {
			return kept
		}
	}
	if replaced || slices.ContainsFunc(v.Lost, is) {
		return lost
	}
	return unknown
}

// tellLeft tells the other agents of a view that this one, self, leaves for good with its archive. It returns nil if
// that is durable at each of them.
func tellLeft(ctx context.Context, self string, v *gossip.View, client *rpc.Client) error {
	for _, a := range v.Agents {
		if a.Name == self {
			continue
		}
		if _, err := client.Peer(a.Name, a.Addr).Operate(ctx, rpc.Operation{Method: leftMethod}); err != nil {
			return fmt.Errorf("agent %q: %w", a.Name, err)
		}
	}
	return nil
}
