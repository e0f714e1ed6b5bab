package cost

// Rendezvous returns the constants of a crawl with --partition rendezvous, the default. They are fitted to crawls of up
// to seven agents and two million pages of a generated web, whose messages had these bytes (docs/lab/twolevel.md, "Our
// constants"). Each agent has the line and the pages of the paper; messages take their bytes from the line.
func Rendezvous() *Model {
	return ours("rendezvous",
		Overhead{Kind: Exchange, Share: Others, Own: true, Base: -0.8925, Doubling: -1.5391},
		Overhead{Kind: Replicas, Share: Cluster, Own: true, Base: 2.0773, Doubling: -1.7767},
		Overhead{Kind: Heartbeats, Share: Cluster, Base: 0.0034, Agent: 0.0014},
		Overhead{Kind: Transport, Share: Cluster, Base: -0.0557, Agent: 0.0841},
	)
}

// Sites returns the constants of a crawl with --partition sites, from the same crawls with one coordinator.
func Sites() *Model {
	return ours("sites",
		Overhead{Kind: Sending, Base: 0.3401, Doubling: -0.3877},
		Overhead{Kind: Partition, Share: Each, Base: 0.1625, Doubling: -0.1427},
		Overhead{Kind: Exchange, Share: Others, Own: true, Base: 1.2058, Doubling: -1.0119},
		Overhead{Kind: Replicas, Share: Cluster, Own: true, Base: 6.4465, Doubling: -0.7073},
		Overhead{Kind: Heartbeats, Base: 0.1781, Agent: -0.0027},
		Overhead{Kind: Transport, Base: 0.1277, Agent: 0.0658},
	)
}

// ours returns a Model for the line of the paper. Links and hosts become rarer as a crawl grows, so beyond the largest
// crawl that was measured the overheads are bounds.
func ours(name string, overheads ...Overhead) *Model {
	paper := Paper()
	return &Model{
		Name: name, Single: paper.Single, PageBytes: paper.PageBytes, Overheads: overheads, MostAgents: 7,
		MostPages: 2e6,
	}
}
