package rpc

import (
	"fmt"
	"sync/atomic"
)

// A Call is one of the things that an agent asks another.
type Call uint8

// The calls, as the package comment tells them.
const (
	CallHello Call = iota
	CallPush
	CallShip
	CallClaim
	CallHand
	CallLease
	CallPulse
	CallEnd
	CallBudget
	CallContents
	calls // how many
)

var callNames = [calls]string{"Hello", "Push", "Ship", "Claim", "Hand", "Lease", "Pulse", "End", "Budget", "Contents"}

func (c Call) String() string {
	if c < calls {
		return callNames[c]
	}
	return fmt.Sprintf("Call(%d)", uint8(c))
}

// A Refused is why something that came in was not let through.
type Refused uint8

// What is refused.
const (
	// Stranger: a connection without a certificate of the cluster, or no TLS.
	Stranger Refused = iota
	// Identity: a caller that is not who it says, or does not say it.
	Identity
	// OtherCrawl: a caller of another crawl.
	OtherCrawl
	// Malformed: what cannot be decoded, or is none of the calls.
	Malformed
	// TooLarge: a message over the bound, before or after decompression.
	TooLarge
	// Busy: more than is served at once.
	Busy
	// Gossip: a packet or a stream of gossip that cannot be read, or is of another
	// crawl.
	Gossip
	// NotAdmitted: a call of an agent that has not been admitted to the cluster.
	NotAdmitted
	refusals // how many
)

var refusedNames = [refusals]string{"stranger", "identity", "other-crawl", "malformed", "too-large", "busy",
	"gossip", "not-admitted"}

func (r Refused) String() string {
	if r < refusals {
		return refusedNames[r]
	}
	return fmt.Sprintf("Refused(%d)", uint8(r))
}

// counters are added to by all; none needs another to be right.
type counters struct {
	calls, errors  [calls]atomic.Uint64
	refused        [refusals]atomic.Uint64
	sent, received atomic.Uint64
}

func (c *counters) refuse(r Refused) { c.refused[r].Add(1) }

// Counts are what has happened since the start.
type Counts struct {
	// Calls are those that were made, or, of a Server, let through to a handler;
	// Errors how many of them ended in one.
	Calls, Errors map[string]uint64
	// Refused are those that did not get to a handler, by kind. A Client has none.
	Refused map[string]uint64
	// Sent and Received are octets on the wire, TLS and gossip's streams included.
	Sent, Received uint64
}

func (c *counters) counts() Counts {
	out := Counts{Calls: map[string]uint64{}, Errors: map[string]uint64{}, Refused: map[string]uint64{},
		Sent: c.sent.Load(), Received: c.received.Load()}
	for i := range calls {
		out.Calls[i.String()], out.Errors[i.String()] = c.calls[i].Load(), c.errors[i].Load()
	}
	for i := range refusals {
		out.Refused[i.String()] = c.refused[i].Load()
	}
	return out
}
