package members

import (
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// An agent that ends in order has its archive: after "ctl leave", and after a stop, a full disk or a limit. The others
// hear that it has ended by gossip (gossip.View.Ended), and keep that on their disks. So an agent that was away, or
// restarts, knows it: from its own disk, or from the first agent that it meets.
//
// An agent that leaves for good tells it to each other agent before it ends, and waits until it is durable there. So it
// does not matter when an heir restarts. An agent that was away hears it by gossip, also if another agent has the name
// by then. An agent that is stopped does not wait: if no agent hears that it ends, it
// counts as lost until it is back.

// LeftMethod is the method of package operation by which an agent says that it leaves for good, with its archive.
// Request and response are empty.
const LeftMethod = "Left"

// An Ending is how an agent has ended: its last start, and whether it has left for good.
type Ending struct {
	Boot uint64 `json:"boot"`
	Left bool   `json:"left,omitempty"`
}

// Endings are the agents that have ended in order and are not back, by their instances in hexadecimal digits. Safe for
// concurrent use.
type Endings struct {
	mu      sync.Mutex // guards durable
	durable map[string]Ending
}

// Gossip returns the endings that an earlier run has heard of, for gossip. It ignores what no agent has written. A nil
// Endings has none.
func (e *Endings) Gossip() (es []gossip.Ending) {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, how := range e.durable {
		if instance, err := rpc.ParseID(id); err == nil {
			es = append(es, gossip.Ending{Life: gossip.Life{Instance: instance, Boot: how.Boot}, Left: how.Left})
		}
	}
	return es
}

// EndingsIn returns the endings in a view.
func EndingsIn(v *gossip.View) map[string]Ending {
	all := map[string]Ending{}
	for _, e := range v.Ended {
		all[rpc.ID(e.Instance).String()] = Ending{e.Boot, e.Left}
	}
	return all
}

// Kept notes that endings are durable.
func (e *Endings) Kept(durable map[string]Ending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.durable = durable
}

// Left answers an agent of a view that says that it leaves for good. It returns nil if that is durable.
func (e *Endings) Left(m *gossip.Member, from rpc.Caller) error {
	if a, ok := m.View().Agent(from.Name); !ok || a.Instance != from.Instance || a.Boot != from.Boot {
		return rpc.ErrAgain
	}
	e.mu.Lock()
	durable := e.durable[from.Instance.String()] == Ending{from.Boot, true}
	e.mu.Unlock()
	if durable {
		return nil
	}
	m.Leaves(gossip.Life{Instance: from.Instance, Boot: from.Boot}) // a change of the view, which the agent keeps
	return rpc.ErrAgain
}

// HasLeft reports whether an instance of an agent has left for good, by a view, which may be nil.
func HasLeft(v *gossip.View, instance rpc.ID) bool {
	return v != nil && EndingsIn(v)[instance.String()].Left
}

// A Fate is what an agent knows of an archive.
type Fate uint8

// The fates.
const (
	Unknown Fate = iota
	// Kept: its agent is there, or has ended in order.
	Kept
	// Lost: its agent has gone without a word, or another one has its name. An agent that was stopped and comes back
	// with a new directory has lost its archive; one that has left for good has not.
	Lost
)

// FateOf returns what is known of an archive, of which handoff.Source.Archive is the name. v may be nil.
func FateOf(v *gossip.View, archive string) Fate {
	if v == nil {
		return Unknown
	}
	agent, instance := SplitArchive(archive)
	is := func(a gossip.Agent) bool {
		return a.Name == agent && hex.EncodeToString(a.Instance[:4]) == instance
	}
	now, named := v.Agent(agent)
	replaced := named && !is(now)
	if IsThere(v, archive) {
		return Kept
	}
	for id, how := range EndingsIn(v) {
		if strings.HasPrefix(id, instance) && (how.Left || !replaced) {
			return Kept
		}
	}
	if replaced || slices.ContainsFunc(v.Lost, is) {
		return Lost
	}
	return Unknown
}

// IsThere reports whether a view has the agent of an archive: it is there, with its archive.
func IsThere(v *gossip.View, archive string) bool {
	agent, instance := SplitArchive(archive)
	a, ok := v.Agent(agent)
	return ok && hex.EncodeToString(a.Instance[:4]) == instance && (a.State == gossip.Up || a.State == gossip.Leaving)
}

// Returned reports whether an agent is there with the name of the agent of an archive, and is another instance.
func Returned(v *gossip.View, archive string) bool {
	if v == nil {
		return false
	}
	agent, _ := SplitArchive(archive)
	a, ok := v.Agent(agent)
	return ok && (a.State == gossip.Up || a.State == gossip.Leaving) && !IsThere(v, archive)
}

// SplitArchive returns the agent of an archive, and the beginning of its instance.
func SplitArchive(archive string) (agent, instance string) {
	at := strings.LastIndexByte(archive, '-')
	if at < 0 {
		return archive, ""
	}
	return archive[:at], archive[at+1:]
}
