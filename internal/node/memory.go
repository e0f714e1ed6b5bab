package node

import (
	"cmp"

	"github.com/orbweaver/orbweaver/internal/node/membership"
)

// LeastMemory is the smallest memory budget, in bytes, that an agent can keep. The program
// and the work in progress take half of it.
const LeastMemory = 128 << 20

const (
	// codeBytes is the resident memory outside of the Go runtime: the program's code and constants.
	codeBytes = 40 << 20
	// workBytes is the memory of 64 workers and of the buffers of fixed size.
	workBytes = 24 << 20
	// nameBytes is the memory of one name in the resolver's cache.
	nameBytes = 200
)

// A budget divides the memory of the process.
//
//	total   codeBytes, or an eighth if that is more
//	        limit       workBytes
//	                    packages    the shares below: 60 %
//	                                the rest: counts by host, gaps between
//	                                objects, and room for the garbage collector
//
// The less free memory it has, the more often the garbage collector runs. So the shares leave room
// at every budget: with too little room, a page costs twice the processor time.
type budget struct {
	limit    int64 // all memory of the Go runtime
	packages int64 // for the shares and the rest
	percent  int64 // sum of the shares in use
}

// A share is the percentage of budget.packages that one package may take.
type share int64

const (
	shareSeen     share = 29
	shareQueues   share = 15
	shareRobots   share = 7
	sharePayloads share = 4
	shareNames    share = 2
	shareCalls    share = 3 // of operators
	shareNear     share = 4 // with --near-duplicates
	shareEarlier  share = 9 // with --dedup-from
	shareSum      share = shareSeen + shareQueues + shareRobots + sharePayloads + shareNames + shareCalls

	// Shares of an agent in a cluster. All shares shrink, so that the sum stays the same.
	shareOutbox   share = 4
	shareReplicas share = 7
	shareShipping share = 2 // twice: links, and finishes that wait for their links
	shareContents share = 4
	sharePages    share = 2
	shareSites    share = 7
	shareExchange share = 4 // requests of other agents
)

// defaultMemory is the budget if Config.MemoryBytes is zero.
const defaultMemory = 1 << 30

// RuntimeLimit returns how much of a budget of memory bytes the Go runtime may have, for
// debug.SetMemoryLimit. The garbage collector runs more often as memory comes near that
// limit. It holds for the whole process, so only a program may set it. Zero means the
// budget of the zero Config.
func RuntimeLimit(memory int64) int64 {
	return newBudget(cmp.Or(memory, defaultMemory), nil, false).limit
}

// newBudget divides the memory of an agent.
func (c *Config) newBudget() budget {
	b := newBudget(c.MemoryBytes, c.Cluster, c.looksForNear())
	if len(c.Earlier.From) > 0 {
		b.percent += int64(shareEarlier)
	}
	return b
}

// newBudget divides total bytes. The shares in use depend on cluster, which is nil for a single
// agent, and on whether the agent looks for near-duplicates.
func newBudget(total int64, cluster *membership.Config, near bool) budget {
	b := budget{percent: int64(shareSum)}
	b.limit = max(total-max(total/8, codeBytes), total/2)
	b.packages = max(b.limit-workBytes, b.limit/2)
	if near {
		b.percent += int64(shareNear)
	}
	if cluster != nil {
		b.percent += int64(shareOutbox + shareExchange)
		if cluster.Replicas >= 2 {
			b.percent += int64(shareReplicas + 2*shareShipping)
		}
		if cluster.MovesPages() {
			b.percent += int64(sharePages)
		}
		if cluster.ByContents() {
			b.percent += int64(shareContents)
		}
		if cluster.ByCoordinators() {
			b.percent += int64(shareSites)
		}
	}
	return b
}

// of returns the bytes of a share, at least one, because zero means a default for most packages.
func (b budget) of(s share) int64 {
	return max(1, b.packages*int64(s)/100*int64(shareSum)/b.percent)
}

// slow returns the bytes that visits to slow servers may take from the rest, while there are such
// visits.
func (b budget) slow() int64 { return max(1, b.packages/4) }

// divide gives each package its share, unless the configuration sets another value.
func (c *Config) divide(b budget) {
	set := func(field *int64, s share) {
		if *field == 0 {
			*field = b.of(s)
		}
	}
	set(&c.Frontier.MemoryBytes, shareQueues)
	set(&c.Robots.MemoryBytes, shareRobots)
	set(&c.Archive.RevisitBytes, sharePayloads)
	if c.DNS.CacheEntries == 0 {
		c.DNS.CacheEntries = int(max(1, b.of(shareNames)/nameBytes))
	}
}
