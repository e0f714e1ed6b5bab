// Package rpc answers: how do agents call one another and the coordinators, and who may?
//
//	Client -> Peer -> one HTTP/2 connection, mutual TLS 1.3 -> Listener -> Server -> Methods of features
//	                                                            `-> gossip, for package gossip
//	Client -> Peer, a coordinator -> one HTTP/2 connection  -> Listener -> Server -> Methods of package coordinator
//	                                                            `-> Raft, for their agreement
//
// One port serves everything. With an agent, TCP carries the calls (Connect, protobuf, zstd) and the
// streams of gossip, and UDP the packets of gossip. With a coordinator, TCP carries the calls and the
// streams between coordinators. ALPN distinguishes calls from streams, and without keys the first
// byte does. Without keys only loopback addresses are allowed.
//
//	call      lane   carries                                 the answer says
//	Hello     quick  the caller's identity and settings      admitted, or the reason why not
//	Push      bulk   links that the receiver owns            they are durable
//	Known     quick  fingerprints of URLs of the receiver    the URLs that it has durably
//	Ship      bulk   journal records for a replica           they are durable
//	Claim     bulk   hosts that the caller owns now          a verdict for each
//	Hand      bulk   records of hosts to know at once        they are durable
//	Lease     quick  package lease's batch                   package lease's batch
//	Pulse     quick  the caller's view                       idle or not, and counts
//	End       quick  all are idle                            whether the answerer still is
//	Budget    quick  pages used, held, wanted                pages to hold
//	Share     quick  share of the rate held, wanted          share to hold
//	Recall    bulk   links to URLs                           what the strategy knows of each
//	Orders    own    orders of operators, a digest           orders that the caller lacks, a digest
//	Operate   own    a request of an operator                the response to it
//	Pages     bulk   a stream of pages that the receiver keeps  they are durable
//	Contents  own    digests of the receiver's contents      the pages that have them archived in full
//
//	to a coordinator
//	Discover  bulk   hosts whose agent the caller lacks      a state for each
//	Follow    own    the caller's report, a number           entries from that number on
//	Finish    quick  all agents have agreed to end           the coordinators have agreed, too
//	Status    quick  nothing                                 text for people and tools
//
// Invariants: a handler gets a call only if the certificate, its name, its role and the crawl
// agree and, except for Hello, Follow, Status and Forget, the caller was admitted. The Method of the call's feature
// checks the sizes, counts and encodings of each message that a handler gets. The handler of a Stream checks its
// messages. The package counts refused calls by kind. It knows no feature's messages.
// Calls are at least once: a call whose answer was lost may have been executed. Peers
// and Servers are safe for concurrent use.
package rpc
