package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
)

// A Status describes a coordinator and what it knows.
type Status struct {
	// Leader is the address of the coordinator that leads, or empty; Leads says that it is this one, and is ready.
	Leader string `json:"leader"`
	Leads  bool   `json:"leads"`
	// Hosts are assigned. Entries is the number of the last entry, Term that of the last roster.
	Hosts   uint64 `json:"hosts"`
	Entries uint64 `json:"entries"`
	Term    uint64 `json:"term"`
	Ended   bool   `json:"ended"`
	// StreamBytes is the size of all entries.
	StreamBytes int64 `json:"stream_bytes"`
	// Agents are the members of the roster, the lost ones and those that have hosts, by name.
	Agents []AgentStatus `json:"agents"`

	// The leader knows the following, since it became the leader.

	// Pending hosts wait for a look-up or an entry. Dead hosts had no address not long ago.
	Pending int `json:"pending"`
	Dead    int `json:"dead"`
	// Lookups counts look-ups, and NoAddress those that found none.
	Lookups   uint64 `json:"lookups"`
	NoAddress uint64 `json:"no_address"`
}

// An AgentStatus describes one agent.
type AgentStatus struct {
	Name string `json:"name"`
	// State is up, leaving, lost, joining or gone.
	State string `json:"state"`
	Addr  string `json:"address,omitempty"`
	// Hosts are assigned to the agent.
	Hosts    uint64  `json:"hosts"`
	Capacity float64 `json:"capacity,omitempty"`
	// The leader knows the following: how long ago it heard of the agent, the number of the last entry that it has
	// read, and the hosts and URLs that wait there.
	HeardMS      int64  `json:"heard_ms,omitempty"`
	Read         uint64 `json:"read,omitempty"`
	WaitingHosts uint64 `json:"waiting_hosts,omitempty"`
	WaitingURLs  uint64 `json:"waiting_urls,omitempty"`
}

var stateNames = map[assignment.State]string{assignment.Joining: "joining", assignment.Up: "up",
	assignment.Leaving: "leaving", assignment.Gone: "gone"}

// Status returns the present figures.
func (c *Coordinator) Status() (s Status) {
	m := c.cfg.Machine
	roster, now := m.Roster(), time.Now()
	s.Term, s.Ended = roster.Term, roster.Ended
	s.Entries, s.StreamBytes = m.Extent()
	var assigned map[string]uint64
	s.Hosts, assigned = m.counts()
	s.Leader, _ = c.cfg.Log.Leader()
	agents := map[string]AgentStatus{}
	for name, hosts := range assigned {
		agents[name] = AgentStatus{Name: name, State: stateNames[assignment.Gone], Hosts: hosts}
	}
	set := func(a assignment.Member, state string) {
		agents[a.Name] = AgentStatus{Name: a.Name, State: state, Addr: a.Addr, Hosts: assigned[a.Name],
			Capacity: a.Capacity}
	}
	for _, a := range roster.Lost {
		set(a, "lost")
	}
	for _, a := range roster.Members {
		set(a, stateNames[a.State])
	}
	if r, err := c.current(); err == nil {
		s.Leads = true
		s.Pending, s.Dead, s.Lookups, s.NoAddress = r.discovery.counts()
		r.report(agents, set, now)
	}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		s.Agents = append(s.Agents, agents[name])
	}
	return s
}

// report adds what the agents have reported.
func (r *leadership) report(agents map[string]AgentStatus, set func(assignment.Member, string), now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l, a := range r.agents {
		ago := max(1, now.Sub(a.at).Milliseconds()) // 0: not heard
		if s, ok := agents[l.name]; !ok || s.State == stateNames[assignment.Gone] && ago < fresh.Milliseconds() {
			set(a.Member, stateNames[a.State])
		}
		s := agents[l.name]
		if s.HeardMS == 0 || ago < s.HeardMS {
			s.HeardMS, s.Read, s.WaitingHosts, s.WaitingURLs = ago, a.number, a.hosts, a.urls
		}
		agents[l.name] = s
	}
}
