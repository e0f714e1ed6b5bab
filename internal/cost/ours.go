package cost

// Rendezvous returns the constants of a crawl with --partition rendezvous, the default. They are fitted to crawls of up
// to seven agents and two million pages of a generated web, whose messages had these bytes (docs/lab/twolevel.md, "Our
// constants"). Each agent has the line and the pages of the paper; messages take their bytes from the line.
func Rendezvous() *Model {
	return ours("rendezvous",
		Overhead{Kind: Exchange, Share: Others, Own: true, Base: -0.7429, Doubling: -1.4635},
		Overhead{Kind: Replicas, Share: Cluster, Own: true, Base: 2.3653, Doubling: -1.5952},
		Overhead{Kind: Heartbeats, Share: Cluster, Base: 0.0033, Agent: 0.0017},
		Overhead{Kind: Transport, Share: Cluster, Base: 0.0054, Agent: 0.0421},
	)
}

// Sites returns the constants of a crawl with --partition sites, from the same crawls with one coordinator.
func Sites() *Model {
	return ours("sites",
		Overhead{Kind: Sending, Base: 0.6115, Doubling: -0.3643},
		Overhead{Kind: Partition, Share: Each, Base: 0.1715, Doubling: -0.0840},
		Overhead{Kind: Exchange, Share: Others, Own: true, Base: 2.8924, Doubling: -0.4989},
		Overhead{Kind: Replicas, Share: Cluster, Own: true, Base: 8.0654, Doubling: -0.1159},
		Overhead{Kind: Heartbeats, Base: 0.2075, Agent: -0.0171},
		Overhead{Kind: Transport, Base: 0.1145, Agent: 0.0292},
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
