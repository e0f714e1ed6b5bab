package node

import (
	"math"
	"runtime/metrics"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/local"
)

// Size is how large a main data structure of an agent is.
type Size = local.Size

// hostCountBytes is about what the counts of one host take; see docs/reference/memory.md.
const hostCountBytes = 80

// sizes returns the sizes of the main data structures, the whole process first. Safe for concurrent use.
func (a *Agent) sizes(s *crawl.Status) []Size {
	process := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/gc/gomemlimit:bytes"},
	}
	metrics.Read(process)
	limit := int64(process[2].Value.Uint64())
	if limit == math.MaxInt64 {
		limit = 0
	}
	seen, robots := s.Sizes.Seen, a.parts.Robots.Stats()
	payloads, payloadBytes := a.parts.Archive.Remembered()
	list := []Size{
		{Name: "process", Memory: int64(process[0].Value.Uint64() - process[1].Value.Uint64()), Limit: limit},
		{Name: "known_urls", Entries: seen.Keys, Memory: seen.MemoryBytes, Limit: a.budget.of(shareSeen),
			Disk: seen.DiskBytes + seen.HeldBytes},
		{Name: "queues", Entries: s.Frontier.Queued, Memory: s.Frontier.RAMBytes, Limit: a.cfg.Frontier.MemoryBytes,
			Disk: s.Frontier.SpilledBytes + s.Frontier.PoolBytes},
		{Name: "robots", Entries: int64(robots.Origins), Memory: robots.Bytes, Limit: a.cfg.Robots.MemoryBytes},
		{Name: "payloads", Entries: int64(payloads), Memory: payloadBytes, Limit: a.cfg.Archive.RevisitBytes},
		{Name: "host_counts", Entries: int64(s.Sizes.Hosts), Memory: int64(s.Sizes.Hosts) * hostCountBytes},
	}
	if a.earlier != nil {
		n, memory, disk := a.earlier.Size()
		list = append(list, Size{Name: "earlier_payloads", Entries: n, Memory: memory, Limit: a.budget.of(shareEarlier),
			Disk: disk})
	}
	if a.resolver != nil {
		n := int64(a.resolver.Cached())
		list = append(list, Size{Name: "addresses", Entries: n, Memory: n * nameBytes,
			Limit: int64(a.cfg.DNS.CacheEntries) * nameBytes})
	}
	if a.membership != nil && a.membership.Replicates() {
		replicas := Size{Name: "replicas", Limit: a.budget.of(shareReplicas)}
		replicas.Entries, replicas.Disk = a.membership.Replicas()
		list = append(list, replicas)
	}
	return list
}
