package coordination

import (
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// Status returns what the coordinator knows.
func (c *Coordinator) Status() Status {
	s := Status{Name: c.cfg.Name, Address: c.Addr(), Version: c.cfg.Version, Members: c.members(),
		Status: c.logic.Status()}
	if s.Leader == alone {
		s.Leader = s.Address
	}
	if id := c.machine.Crawl(); id != [16]byte{} {
		s.Crawl = rpc.ID(id).String()
	}
	n := c.node.Status()
	s.Voting, s.LogTerm, s.LogLast, s.LogCommitted, s.LogBytes = n.Voting, n.Term, n.Last, n.Committed, n.LogBytes
	s.MemoryBytes, s.DiskBytes = c.machine.Bytes()
	return s
}

// A Status describes a coordinator and what it knows.
type Status struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Version string `json:"version"`
	// Crawl is the crawl of the agents, or empty before the first agent.
	Crawl string `json:"crawl,omitempty"`
	// Members are the addresses of all coordinators.
	Members []string `json:"members"`

	coordinator.Status

	// Voting is false while a coordinator that has lost its directory catches up.
	Voting bool `json:"voting"`
	// LogTerm is the term of the leader, in Raft's sense. LogLast is the newest entry of the log here, and LogCommitted
	// the newest one that more than half of the coordinators have. LogBytes are those since the last snapshot.
	LogTerm      uint64 `json:"log_term"`
	LogLast      uint64 `json:"log_last"`
	LogCommitted uint64 `json:"log_committed"`
	LogBytes     int64  `json:"log_bytes"`
	// MemoryBytes and DiskBytes are those of the table of hosts.
	MemoryBytes int64 `json:"memory_bytes"`
	DiskBytes   int64 `json:"disk_bytes"`
}
