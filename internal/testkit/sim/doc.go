// Package sim answers: does a cluster keep its promises under all faults?
//
// A story is a crawl by whole agents in one process. node.Open opens them, as the program does:
//
//	Plan -> Tell -> agents: gossip, TLS, calls, disks -> network, web -> judge -> Verdict
//	                  ^ faults, at a share of the pages
//
// The agents have real gossip, TLS and calls. Their disks are in memory, and can fail, lose power
// and come back old (disk.Mem, disk.Faulty). The network is in memory: latency, loss, one-way
// cuts, partitions and slow lines act on the delivery, so that writing never blocks. The web is a
// generated one that knows the truth (testweb/gen), with its own name server.
//
// A story runs in a bubble of testing/synctest: time is virtual, and hours of waiting cost nothing.
// The seed of a Plan fixes the web, the faults and the network. It cannot fix the order of
// goroutines and the random numbers of libraries, so two runs of a plan may differ. Therefore a
// Verdict has the log of its story, and a plan that failed once should be run many times.
//
// The judge sees the requests as the web does. It checks coverage, repeated fetches, politeness
// among all agents, and the longest time without a page. A repeated fetch needs an excuse: a fault
// that explains it, such as the last second of a killed agent. If all copies of what is known of a
// host may go down together, the host's pages fetched before may be fetched again, and links to it
// may be lost with the disks (loss.go). The placement of hosts tells which agents have the copies.
// The judge shares nothing else with the crawler. Everything else is judged in every story. At the
// end the archives on the disks must be complete, and each agent must have ended by itself.
//
// Only tests and the laboratory import this package.
package sim
