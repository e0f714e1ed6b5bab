// Package sim answers: does a cluster keep its promises under all faults?
//
// A story is a crawl by whole agents in one process. node.Open opens them, as the program does:
//
//	Plan -> Tell -> agents: gossip, TLS, calls, disks -> network, web -> judge -> Verdict
//	                  ^ faults, at a share of the pages
//
// The agents have real gossip, TLS and calls. Their disks are in memory, and can fail, lose power
// and come back old (testdisk.Mem, testdisk.Faulty). The network is in memory (simnet): latency, loss, one-way
// cuts, partitions and slow lines act on the delivery, so that writing never blocks. The web is a
// generated one that knows the truth (testweb/gen), with its own name server.
//
// A story runs in a bubble of testing/synctest: time is virtual, and hours of waiting cost nothing. A busy machine
// makes a story slower, but no timeout and no delay in it becomes longer.
//
// The seed of a Plan fixes the web, the faults, and the latencies and losses of the network. Three things are left to
// chance, and no test can fix them: the order in which goroutines run, the order of timers of the same instant, and the
// runtime's own random numbers (iteration over maps, select, math/rand/v2). So two runs of a plan usually differ from
// the first fetches on, and end within some seconds of each other. One processor, or fixed seeds of math/rand and
// crypto/rand, which the libraries for gossip, consensus and TLS use, do not change that measurably.
//
// Therefore no verdict compares two runs or expects an exact order. The judge allows what each fault explains, for as
// long as it explains it, and the bounds of a named story (type bound) leave room for the differences. A story whose
// verdict depends on chance all the same belongs to the soak. A plan that failed once should be run many times; its
// Verdict has the log of its story.
//
// The gate (see package testtier) tells the stories that gate_test.go lists, all of TestKnown, and a few random plans
// with fixed seeds. It uses one processor, and tells one story after the other, so that the load of the machine has
// next to no part in the order of goroutines. The soak tells all named stories, and random plans with new seeds.
//
// A plan may have coordinators. They run in the same way (coordination.Open), with machines, disks and faults of
// their own (coordinators.go).
//
// The judge sees the requests as the web does. It checks coverage, also of redirects (redirect.go),
// repeated fetches, politeness among all agents, the longest time without a page, and the time from
// the last page until each agent ends. A repeated fetch needs an excuse: a fault that explains it,
// such as the last second of a killed agent. A bad network explains only repeated fetches and
// violations between two agents of which one did not hear the other. It explains nothing about the
// requests of one agent, and no request that robots.txt forbids (apart.go). If all copies of what
// is known of a host may go down together, the host's pages fetched before may be fetched again,
// and links to it may be lost with the disks (loss.go). Everything else is judged in every story.
//
// If the plan bounds the pages of a host or the depth in it, the judge demands that no agent exceeds a bound, and that
// each link of a fetched page leads to a fetched one unless a bound excludes it (bounds.go).
//
// At the end the judge reads the archives on all disks that are left (archive.go), also those of
// agents that did not return. Each page that the web has answered in whole must have a record with
// the body that the web serves, unless the record was lost with a disk. Each agent must have ended
// by itself, and have done what the story told it (order.go). If it ended well, each record on its disk
// has a line in its index that says where it is (index.go).
//
// Requests, pages, links and bodies come from the generated web, and the judge reads archives and
// logs with code of its own. It uses the crawler's code in one place: the placement of hosts tells
// which agents have the copies. It believes what agents say in six places: the events
// "shipped-whole" and "right-lost", the reason or error of a stop, the pages that crawl.log calls duplicates, the way
// that crawl.log has of a page, and the counts of a summary.
//
// If the plan has random walks, the agents need not fetch all pages. A Verdict then has the visits of
// all walkers (walk.go).
//
// Only tests and the laboratory import this package.
package sim
