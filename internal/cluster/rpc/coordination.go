package rpc

import (
	"sync"
	"time"
)

const (
	// MaxFollow is how long a Follow may wait for an entry.
	MaxFollow = time.Second
	// followSilence is how long an agent waits for the beginning of an answer to Follow, with the time that a
	// connection takes. So it calls another coordinator before its right to start visits ends.
	followSilence = MaxFollow + 2*time.Second
)

// Coordinator returns what calls the coordinator at addr, whose certificate must say that it is one. See Peer.
func (c *Client) Coordinator(addr string) *Peer { return c.known(addr, "", addr, coordinatorRole) }

// A NotLeader is the answer of a coordinator that does not lead.
type NotLeader struct {
	// Leader is the address of the coordinator that leads, or empty if the answering one knows of none.
	Leader string
}

func (n *NotLeader) Error() string {
	if n.Leader == "" {
		return "this coordinator does not lead, and knows of none that does"
	}
	return "this coordinator does not lead, the one at " + n.Leader + " does"
}

// notLeader reads the address of a leader from a response.
func notLeader(addr string) error {
	if addr != "" && CheckAddress(addr) != nil {
		return malformed("leader %.64q", addr)
	}
	return &NotLeader{addr}
}

// shares bound the calls of one caller that run at once, so that none keeps the others out. The zero value is ready.
type shares struct {
	mu sync.Mutex
	n  map[share]int
}

type share struct {
	call Call
	name string
}

// most returns how many calls of a kind one caller may have, or 0 for no bound. These are more Follows than a Client
// makes, because a restarted agent may come back before its old calls have ended.
func (s share) most() int {
	switch s.call {
	case CallFollow:
		return 2 * askedFollows
	case CallDiscover:
		return askedBulk
	}
	return 0
}

// enter reports whether a caller may have one more call. Then leave must follow.
func (s *shares) enter(call Call, name string) bool {
	k := share{call, name}
	most := k.most()
	if most == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[k] >= most {
		return false
	}
	if s.n == nil {
		s.n = map[share]int{}
	}
	s.n[k]++
	return true
}

func (s *shares) leave(call Call, name string) {
	k := share{call, name}
	if k.most() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[k]--; s.n[k] <= 0 {
		delete(s.n, k)
	}
}
