package rpc

import (
	"fmt"
	"sync/atomic"
)

// A Call is a kind of call.
type Call uint8

// The calls; see the package comment.
const (
	CallHello Call = iota
	CallPush
	CallKnown
	CallShip
	CallClaim
	CallHand
	CallLease
	CallPulse
	CallEnd
	CallBudget
	CallShare
	CallContents
	CallRecall
	CallOrders
	CallOperate
	CallPages
	// The calls to a coordinator.
	CallDiscover
	CallFollow
	CallFinish
	CallStatus
	CallForget
	calls // the number of calls
)

var callNames = [calls]string{"Hello", "Push", "Known", "Ship", "Claim", "Hand", "Lease", "Pulse", "End", "Budget",
	"Share", "Contents", "Recall", "Orders", "Operate", "Pages", "Discover", "Follow", "Finish",
	"Status", "Forget"}

// answerer returns the role of the process that answers the call.
func (c Call) answerer() role {
	if c >= CallDiscover {
		return coordinatorRole
	}
	return agentRole
}

// caller returns the role of the processes that may make the call.
func (c Call) caller() role {
	switch c {
	case CallStatus:
		return anyRole
	case CallForget: // it is about another agent
		return coordinatorRole
	}
	return agentRole
}

// path returns the path of the call's requests.
func (c Call) path() string {
	if c.answerer() == coordinatorRole {
		return "/orbweaver.coordination.v1.Coordination/" + callNames[c]
	}
	return "/orbweaver.exchange.v1.Exchange/" + callNames[c]
}

func (c Call) String() string {
	if c < calls {
		return callNames[c]
	}
	return fmt.Sprintf("Call(%d)", uint8(c))
}

// A Refused is a reason to refuse a caller or a message.
type Refused uint8

// The reasons.
const (
	// Stranger: a connection without a certificate of the cluster, or no TLS.
	Stranger Refused = iota
	// Identity: a caller without an identity, or with a wrong one.
	Identity
	// OtherCrawl: a caller of another crawl.
	OtherCrawl
	// Malformed: a message that cannot be decoded, or an unknown call.
	Malformed
	// TooLarge: a message above the bound, before or after decompression.
	TooLarge
	// Busy: more calls than are served at once.
	Busy
	// Gossip: a packet or a stream of gossip that cannot be read, or is of another
	// crawl.
	Gossip
	// NotAdmitted: a call of an agent that has not been admitted to the cluster.
	NotAdmitted
	// WrongRole: an agent in place of a coordinator or the other way round.
	WrongRole
	refusals // the number of reasons
)

var refusedNames = [refusals]string{"stranger", "identity", "other-crawl", "malformed", "too-large", "busy",
	"gossip", "not-admitted", "role"}

func (r Refused) String() string {
	if r < refusals {
		return refusedNames[r]
	}
	return fmt.Sprintf("Refused(%d)", uint8(r))
}

// counters are independent of each other. Any goroutine may add to them.
type counters struct {
	calls, errors  [calls]atomic.Uint64
	bodies         [calls]atomic.Uint64
	answers        [calls]atomic.Uint64
	packets        atomic.Uint64
	refused        [refusals]atomic.Uint64
	sent, received atomic.Uint64
}

func (c *counters) refuse(r Refused) { c.refused[r].Add(1) }

// Counts are the counts since the start.
type Counts struct {
	// Calls counts the calls made by a Client, or passed to a handler by a Server. Errors counts
	// those that ended in an error.
	Calls, Errors map[string]uint64
	// Refused counts callers and messages that did not reach a handler, by reason. A Client has
	// none.
	Refused map[string]uint64
	// Bodies counts the bytes of messages that were sent, after compression: of requests by a
	// Client, of answers by a Server. The rest of Sent is HTTP, TLS and gossip.
	Bodies map[string]uint64
	// Answers counts the bytes of answers that a Client received, before decompression. A Server has none.
	Answers map[string]uint64
	// Packets are the bytes that were sent in packets of gossip.
	Packets uint64
	// Sent and Received are bytes on the wire, with TLS and gossip.
	Sent, Received uint64
}

func (c *counters) counts() Counts {
	out := Counts{Calls: map[string]uint64{}, Errors: map[string]uint64{}, Refused: map[string]uint64{},
		Bodies: map[string]uint64{}, Answers: map[string]uint64{},
		Packets: c.packets.Load(), Sent: c.sent.Load(), Received: c.received.Load()}
	for i := range calls {
		out.Calls[i.String()], out.Errors[i.String()] = c.calls[i].Load(), c.errors[i].Load()
		out.Bodies[i.String()], out.Answers[i.String()] = c.bodies[i].Load(), c.answers[i].Load()
	}
	for i := range refusals {
		out.Refused[i.String()] = c.refused[i].Load()
	}
	return out
}
