package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// A Log is the replicated log that drives the Machine. Safe for concurrent use.
type Log interface {
	// Propose appends a command and returns what the Machine's Apply returned for it. After an error it is unknown
	// whether the command was or will be applied.
	Propose(ctx context.Context, command []byte) (result any, err error)
	// Leader returns the address of the coordinator that leads, or "" if none is known, and whether it is this one.
	// A coordinator that has been replaced learns of it within 1.5 s.
	Leader() (addr string, self bool)
	// Changes receives a value after each change of what Leader returns. A value waits if another one is unread.
	Changes() <-chan struct{}
}

// A Follow asks for the entries from a number on. It is also the caller's sign of life.
type Follow struct {
	// From is the number of the first entry that the caller lacks, at least 1.
	From uint64
	// Wait is how long to wait for an entry if there is none, at most a second.
	Wait   time.Duration
	Report Report
	// Group is that of the answers from which the caller has its entries; zero: it is not known.
	Group [16]byte
	// Stamp is that of the last answer of the same coordinator, or 0. The report is not older than that answer.
	Stamp uint64
}

// A Report is what an agent says about itself. It changes only what concerns that agent.
type Report struct {
	Capacity float64
	// Addr is the agent's call address, host:port.
	Addr string
	// State is the state that the agent wants.
	State assignment.State
	// Term is that of the last roster that the agent has read.
	Term uint64
	// Hosts and URLs wait at the agent.
	Hosts, URLs uint64
	// Heard is the time since the last message of other agents of the roster, of the same instances. Agents that
	// are missing have not been heard since the reporting agent has started.
	Heard map[string]time.Duration
	// Settings must be equal for all agents.
	Settings map[string]string
}

// Followed answers a Follow.
type Followed struct {
	// Entries are concatenated encodings of entries, from Follow.From on: at most MaxData bytes.
	Entries []byte
	// Last is the number of the last entry, and Term that of the last roster.
	Last, Term uint64
	// Member reports that the caller, in its present life, is up in the last roster. It gives the right to start
	// visits, from when the question was sent.
	Member bool
	Crawl  [16]byte
	// Group names the log of these coordinators. Coordinators that begin anew have another one, and number their
	// entries anew. Zero: the log is of a version without names.
	Group [16]byte
	// Stamp is for the caller's next Follow at the same coordinator.
	Stamp uint64
}

// A HostState is what the coordinators say about a host.
type HostState uint8

// The states.
const (
	// HostAssigned: an entry of the stream assigns the host to an agent.
	HostAssigned HostState = 1 + iota
	// HostComing: an entry will assign the host, or HostDead will be the next answer. The coordinator forgets it if
	// another one becomes the leader, so the agent asks again from time to time.
	HostComing
	// HostDead: the host has no address, or the coordinator has too many hosts in look-up. Ask again after
	// HostAnswer.After.
	HostDead
)

// A HostAnswer is the answer to a Discover for one host. After is zero unless State is HostDead.
type HostAnswer struct {
	State HostState
	After time.Duration
}

// refuse returns the Refusal of an agent that cannot be a part of this crawl as it is. reason is one of crawl,
// settings, name, full, member, report.
func refuse(reason, format string, args ...any) error {
	return &rpc.Refusal{Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// differ returns the Refusal of an agent whose settings differ from those of the crawl, or nil.
func differ(agent string, theirs, ours map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if their := theirs[name]; their != ours[name] {
			return refuse("settings", "agent %q has %s %q, the crawl has %q: all agents must have the same", agent,
				name, their, ours[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if _, ok := ours[name]; !ok {
			return refuse("settings", "agent %q has %s %q, the crawl does not know it: all agents must have the same "+
				"version", agent, name, theirs[name])
		}
	}
	return nil
}
