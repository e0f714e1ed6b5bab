// Package rpc answers: how do agents call one another, and who may?
//
//	Client -> Peer -> one HTTP/2 connection, mutual TLS 1.3 -> Listener -> Server -> Handlers
//	                                                            `-> gossip, for package member
//
// One port serves all: TCP carries the calls (Connect, protobuf, zstd) and the
// streams of gossip, UDP its packets. Which of the two a connection is, ALPN
// tells, and without keys its first octet. Without keys there is only loopback.
//
//	call      lane   carries                                 the answer says
//	Hello     quick  who I am, what must be alike            you are welcome, or why not
//	Push      bulk   links of the receiver                   they are durable
//	Ship      bulk   journal records for a replica           they are durable
//	Claim     bulk   hosts that are the caller's now         what is known of each
//	Hand      bulk   a stream: all that is known of hosts    it is durable
//	Lease     quick  package lease's batch                   package lease's batch
//	Pulse     quick  the caller's view                       idle or not, and counts
//	End       quick  all are idle                            whether the answerer still is
//	Budget    quick  pages used, held, wanted                pages to hold
//	Contents  own    digests of the receiver's contents      the pages that have them archived in full
//
// Invariants: a handler gets a call only if the certificate, its name and the crawl
// agree and, except for Hello, the caller was admitted. The package has checked the
// sizes, counts and encodings of each message that a handler gets. It counts refused
// calls by kind. It knows bytes and batches; the handlers decide what to do with them.
// Calls are at least once: a call whose answer was lost may have been executed. Peers
// and Servers are safe for concurrent use.
package rpc
