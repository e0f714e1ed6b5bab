package sites

import (
	"fmt"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Status has the figures of a Sites.
type Status struct {
	Number uint64 `json:"number"` // the last entry applied
	Last   uint64 `json:"last"`   // the leader's last entry, when it last answered
	Term   uint64 `json:"term"`   // of the roster that is in effect
	Leader string `json:"leader"` // address of the coordinator that leads; "": not known

	Hosts    int64 `json:"hosts"`    // in the table
	Waiting  int64 `json:"waiting"`  // hosts whose owner is wanted and not known
	Unknown  int64 `json:"unknown"`  // of Waiting: those that the table does not have
	Dead     int64 `json:"dead"`     // of Unknown: those without an address, to be asked for again
	Promised int64 `json:"promised"` // of Unknown: those that the coordinators look up, or are about to assign

	// Since the start:
	Asked      int64 `json:"asked"`      // hosts whose owner was wanted and not in the cache
	Found      int64 `json:"found"`      // of Asked: those that the table had
	Assigned   int64 `json:"assigned"`   // of Asked: those whose assignment came
	Discovered int64 `json:"discovered"` // hosts that the coordinators were asked for, with repetitions
	Died       int64 `json:"died"`       // answers that a host has no address
	Refused    int64 `json:"refused"`    // hosts that found no room to wait
	Overflows  int64 `json:"overflows"`  // how often links were routed again for that
	Hits       int64 `json:"hits"`       // look-ups that the cache answered
	Misses     int64 `json:"misses"`
	Rebuilt    int64 `json:"rebuilt"` // how often a damaged table was read again

	Cached       int64 `json:"cached"`        // hosts in the cache
	CacheBytes   int64 `json:"cache_bytes"`   // of RAM
	TableBytes   int64 `json:"table_bytes"`   // of RAM
	DiskBytes    int64 `json:"disk_bytes"`    // of the table
	BytesRead    int64 `json:"bytes_read"`    // from disk
	BytesWritten int64 `json:"bytes_written"` // to disk

	// Waits says in words what the agent waits for; "": for nothing.
	Waits string `json:"waits"`
}

// Status returns the figures of now.
func (s *Sites) Status() Status {
	n, total := s.asker.counts()
	d := s.stats.Load()
	st := Status{
		Number: s.number.Load(), Term: s.View(), Leader: s.source.leading(),
		Hosts: d.Keys, Unknown: int64(n[due] + n[asked] + n[promised] + n[dead]), Dead: int64(n[dead]),
		Promised: int64(n[promised]),
		Asked:    total.asked, Found: total.found, Assigned: total.assigned, Discovered: total.discovered,
		Died: total.dead, Refused: total.refused, Overflows: total.overflows,
		Hits: s.cache.hits.sum(), Misses: s.cache.misses.sum(), Rebuilt: s.rebuilt.Load(),
		Cached: s.cache.n.Load(), CacheBytes: s.cache.bytes(),
		TableBytes: d.MemoryBytes, DiskBytes: d.DiskBytes, BytesRead: d.BytesRead, BytesWritten: d.BytesWritten,
	}
	st.Waiting = st.Unknown + int64(n[looking])
	s.source.mu.Lock()
	st.Last = s.source.last
	s.source.mu.Unlock()
	st.Waits = s.waits(st.Unknown, st.Dead)
	return st
}

// Explain says in words which agent a host is assigned to and owns it, or what it waits for. It asks nobody: call
// Lookup before, because a host that is not in RAM counts as unknown. The text begins with a verb, and its subject
// is the host.
func (s *Sites) Explain(host string) string {
	now, o := s.cfg.Clock.Now(), s.owners.Load()
	p, ok := s.cache.get(s.cache.hash(host))
	switch {
	case !ok:
		if text := s.asker.explain(host, now); text != "" {
			return text
		}
		return fmt.Sprintf("has no agent as of entry %d, and this agent asks for none", s.number.Load())
	case o == nil:
		return "is assigned to an agent; the coordinators have not said yet which agents are up"
	}
	name, _ := o.owner(p, link.HostKey(host))
	if p.agent() >= len(o.agents) {
		return fmt.Sprintf("was assigned by entry %d and belongs to agent %s", p.number(), name)
	}
	switch to := o.agents[p.agent()].name; {
	case name == "":
		return fmt.Sprintf("was assigned to agent %s by entry %d; no agent is up", to, p.number())
	case name != to:
		return fmt.Sprintf("was assigned to agent %s by entry %d; that agent is away, so the host belongs to agent %s",
			to, p.number(), name)
	}
	return fmt.Sprintf("was assigned to agent %s by entry %d", name, p.number())
}

// Waits reports whether links of a host wait here until it has an agent. Safe for concurrent use.
func (s *Sites) Waits(host string) bool { return s.asker.waitsFor(host) }

// waits says what the agent waits for.
func (s *Sites) waits(unknown, dead int64) string {
	var parts []string
	switch {
	case unknown == 1:
		parts = append(parts, "1 host has no agent yet")
	case unknown > 1:
		parts = append(parts, fmt.Sprintf("%d hosts have no agent yet", unknown))
	}
	if dead > 0 {
		parts[0] += fmt.Sprintf(" (without an address: %d)", dead)
	}
	if why := s.right.Why(s.cfg.Clock.Now()); why != "" {
		parts = append(parts, "no visit starts: "+why)
	}
	words := s.source.words()
	if words == "" {
		return strings.Join(parts, "; ")
	}
	if len(parts) == 0 {
		return words
	}
	return words + ": " + strings.Join(parts, "; ")
}

// note notes the figures of the table.
func (s *Sites) note() {
	d := s.table.drum.Stats()
	s.stats.Store(&d)
	s.rebuilt.Store(s.table.rebuilt)
}
