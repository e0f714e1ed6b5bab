package cost

// A Model estimates how many pages a second a cluster fetches.
type Model struct {
	Name string
	// Single is the speed of one machine that crawls alone, in pages a second.
	Single float64
	// PageBytes is the mean size of the pages with which Single was measured, as they came over the line.
	PageBytes float64
	Overheads []Overhead
	// MostAgents is the number of agents of the largest cluster to which the constants were fitted.
	MostAgents int
	// MostPages is the number of pages of the largest crawl. Beyond it, or beyond an agent's part of it, an overhead no
	// longer depends on the number of pages. Zero: it always does.
	MostPages float64
}

// The kinds of overhead in the paper.
const (
	Setup     = "set-up"                // of the connections to the coordinator and to the other agents
	Sending   = "hosts sent"            // to the coordinator
	Partition = "partition information" // from the coordinator: which agent owns which host
	Exchange  = "links exchanged"       // with other agents
)

// The kinds of overhead that the paper's crawler does not have, or does not count.
const (
	Replicas   = "replicas"   // journals of hosts, for the agents that inherit them
	Heartbeats = "heartbeats" // gossip, leases and other messages whose number depends on the time
	Transport  = "transport"  // HTTP around all messages
)

// Paper returns the constants of section 5 of the paper: seven machines with a Core 2 Duo and 1 GB of memory, each with
// an emulated line of 320 Mbit/s. It counts the first two of its five overheads as one, because they do not change.
func Paper() *Model {
	return &Model{
		Name: "paper", Single: 1784.22, PageBytes: 22_300, MostAgents: 7,
		Overheads: []Overhead{
			{Kind: Setup, Base: 4.04},
			{Kind: Sending, Base: 1.11, Doubling: 0.36},
			{Kind: Partition, Base: 3.83, Agent: 0.28, Doubling: 1.59},
			{Kind: Exchange, Base: -4.39, Agent: 4.39, Doubling: 5.5}, // 4.39 for each of the n-1 others
		},
	}
}

// Models returns the models that the program knows.
func Models() []*Model { return []*Model{Rendezvous(), Sites(), Paper()} }

// Names returns the names of Models.
func Names() (names []string) {
	for _, m := range Models() {
		names = append(names, m.Name)
	}
	return names
}

// Overhead returns what all kinds of overhead together cost an agent, in pages a second: at most Single. A kind is
// never below zero, although its formula may be for small crawls or many agents.
func (m *Model) Overhead(n int, pages float64) float64 {
	sum := 0.0
	for _, o := range m.Overheads {
		sum += max(0, m.at(&o, n, pages))
	}
	return min(sum, m.Single)
}

// at returns an overhead as it is within the measured sizes.
func (m *Model) at(o *Overhead, n int, pages float64) float64 {
	most := m.MostPages
	if o.Own {
		pages, most = pages/float64(n), most/float64(max(m.MostAgents, 1))
	}
	if most > 0 {
		pages = min(pages, most)
	}
	return o.of(n, pages)
}

// Speed returns the pages a second of n agents that crawl so many pages together (the denominator of Eq. 4).
func (m *Model) Speed(n int, pages float64) float64 {
	return float64(n) * (m.Single - m.Overhead(n, pages))
}

// MaxAgents is the largest number of agents for which the package plans.
const MaxAgents = 100_000

// Peak returns the number of agents with the highest speed (5.4), and whether there is one: false means that up to
// MaxAgents each agent adds speed.
func (m *Model) Peak(pages float64) (n int, ok bool) {
	best := 1
	for n := 2; n <= MaxAgents; n++ {
		if m.Speed(n, pages) > m.Speed(best, pages) {
			best = n
		}
	}
	return best, best < MaxAgents
}
