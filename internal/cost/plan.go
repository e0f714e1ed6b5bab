package cost

import "math"

// A Question asks what a crawl takes. A field that is zero has no effect unless it says otherwise.
type Question struct {
	Pages     float64 // to fetch; at least 1
	PageBytes float64 // of a page on the line; zero: those of the Model
	Bandwidth float64 // of all agents together, in bytes a second; zero: no limit
	// AgentSpeed is the speed of one agent alone, in pages a second. Zero: that of the Model, and less in proportion if
	// the pages are larger than those of the Model, because one line has limited it.
	AgentSpeed float64
	URLs       float64 // known at the end; zero: as many as Pages
	Hosts      float64 // met
	Replicas   int     // agents that know a host, the owner included; zero: 1
	Prices     Prices
}

// Prices are in any currency. Zero: not counted.
type Prices struct {
	Machine float64 // of a machine, an hour
	Disk    float64 // of a terabyte (10^12 bytes), a month (30 days)
	Traffic float64 // of a gigabyte (10^9 bytes) received from the web
}

// A Plan is the answer to a Question for one number of agents.
type Plan struct {
	Agents    int     `json:"agents"`
	PagesPerS float64 `json:"pages_per_s"` // of all agents
	Days      float64 `json:"days"`
	// LineFull means that the bandwidth bounds the speed. LineShare is the share of it that the crawl takes; zero
	// without a bandwidth.
	LineFull  bool    `json:"line_full"`
	LineShare float64 `json:"line_share,omitempty"`
	// OfAlone is the speed of an agent as a share of the speed of one that crawls alone.
	OfAlone   float64 `json:"agent_speed_of_alone"`
	DiskBytes float64 `json:"disk_bytes"`         // of all agents, at the end
	Memory    float64 `json:"memory_bytes_agent"` // for --memory of each agent
	Cost      Cost    `json:"cost,omitzero"`
}

// A Cost is in the currency of the Prices.
type Cost struct {
	Machines     float64 `json:"machines"`
	Disk         float64 `json:"disk"`
	Traffic      float64 `json:"traffic"`
	Total        float64 `json:"total"`
	PerMillionPg float64 `json:"per_million_pages"`
}

// What a page takes on disk besides its bytes on the line, with the default settings. docs/plan.md says how these were
// measured.
const (
	archiveBytes = 1870 // headers of its WARC records, and the archived request
	indexBytes   = 662  // its line in indexes, and in the sorted pieces of the index in state
	logBytes     = 643  // its lines in crawl.log and crawl.jsonl
	stateBytes   = 121  // its key, and its share of the journal's snapshot
)

// What an agent takes in memory.
const (
	keyBytes  = 0.82 // of filter and index for each known URL: docs/lab/seen-billion.md
	hostBytes = 80   // of counts for each host: docs/reference/memory.md
	keyShare  = 0.22 // of the budget's packages, in a cluster with replicas: docs/reference/memory.md
	hostShare = 0.43 // the same for the counts by host
	codeBytes = 40 << 20
	workBytes = 24 << 20
	leastMem  = 128 << 20
)

// Answer returns the Plan for n agents.
func (m *Model) Answer(q *Question, n int) Plan {
	alone := q.alone(m)
	p := Plan{Agents: n, PagesPerS: q.speed(m, n)}
	if line := q.line(m); line > 0 {
		p.LineFull = p.PagesPerS >= line
		p.LineShare = p.PagesPerS / line
	}
	p.OfAlone = p.PagesPerS / float64(n) / alone
	seconds := q.Pages / p.PagesPerS
	p.Days = seconds / 86400
	p.DiskBytes = q.Pages*(q.pageBytes(m)+archiveBytes+indexBytes+logBytes) +
		q.urls()*stateBytes*float64(min(max(q.Replicas, 1), n))
	p.Memory = q.memory(n)
	p.Cost = q.cost(&p, seconds/3600, q.pageBytes(m))
	return p
}

// Best returns the number of agents for which the crawl is fastest; if the line bounds it, the least that fill the
// line. ok is false if up to MaxAgents each agent adds speed.
func (m *Model) Best(q *Question) (n int, ok bool) {
	n, ok = m.Peak(q.Pages)
	line := q.line(m)
	if line == 0 || q.speed(m, n) < line {
		return n, ok
	}
	for n = 1; q.speed(m, n) < line; n++ {
	}
	return n, true
}

// alone returns the speed of one agent that crawls alone.
func (q *Question) alone(m *Model) float64 {
	if q.AgentSpeed > 0 {
		return q.AgentSpeed
	}
	return m.Single * min(1, m.PageBytes/q.pageBytes(m))
}

// speed returns the pages a second of n agents within the bandwidth. Each agent loses the same share of its speed as
// one of the Model.
func (q *Question) speed(m *Model, n int) float64 {
	s := m.Speed(n, q.Pages) * q.alone(m) / m.Single
	if line := q.line(m); line > 0 {
		s = min(s, line)
	}
	return s
}

// line returns the pages a second that the bandwidth can carry; zero: any number.
func (q *Question) line(m *Model) float64 { return q.Bandwidth / q.pageBytes(m) }

func (q *Question) pageBytes(m *Model) float64 {
	if q.PageBytes > 0 {
		return q.PageBytes
	}
	return m.PageBytes
}

func (q *Question) urls() float64 { return max(q.URLs, q.Pages) }

// memory returns the budget with which the filters of all known URLs and the counts of all hosts are in RAM.
func (q *Question) memory(n int) float64 {
	packages := max(q.urls()*keyBytes/keyShare, q.Hosts*hostBytes/hostShare) / float64(n)
	return math.Ceil(max(leastMem, packages+workBytes+codeBytes, (packages+workBytes)*8/7))
}

func (q *Question) cost(p *Plan, hours, pageBytes float64) (c Cost) {
	c.Machines = q.Prices.Machine * hours * float64(p.Agents)
	c.Disk = q.Prices.Disk * p.DiskBytes / 1e12 * hours / (30 * 24)
	c.Traffic = q.Prices.Traffic * q.Pages * pageBytes / 1e9
	c.Total = c.Machines + c.Disk + c.Traffic
	c.PerMillionPg = c.Total / (q.Pages / 1e6)
	return c
}
