package consensus

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/orbweaver/orbweaver/internal/clock"
)

const (
	// askAgain is the time between two questions for the standing of the others.
	askAgain = 500 * time.Millisecond
	// amnesia is how long a member with an empty directory waits until it joins a running group. A vote that it sent
	// before it lost its directory is counted or dropped by then: a candidate counts the votes of a term for at most
	// twice the election timeout.
	amnesia = 4*electionTimeout + rpcTimeout + time.Second
)

// What a member says of itself before raft runs.
const (
	stateEmpty      = 0 // it has nothing
	stateMember     = 1 // it has a term and a log
	stateCatchingUp = 2 // it has lost its directory, and does not have the group's log again yet
)

// A standing is what a member has on its disk.
type standing struct {
	state       byte
	term        uint64
	index, last uint64 // of the last entry, and its term
}

const standingSize = 29

func (s standing) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, s.state)
	for _, n := range []uint64{s.term, s.index, s.last} {
		dst = le.AppendUint64(dst, n)
	}
	return le.AppendUint32(dst, checksum(dst[start:]))
}

func parseStanding(b []byte) (s standing, err error) {
	if len(b) != standingSize || checksum(b[:25]) != le.Uint32(b[25:]) || b[0] > stateCatchingUp {
		return s, errors.New("malformed standing")
	}
	return standing{b[0], le.Uint64(b[1:]), le.Uint64(b[9:]), le.Uint64(b[17:])}, nil
}

// began reports whether the group has worked: a group that was only founded has one entry and no election.
func (s standing) began() bool { return s.state == stateMember && (s.term > 1 || s.index > 1) }

// A verdict says how a member with an empty directory starts.
type verdict int

const (
	wait   verdict = iota // it cannot be known yet
	found                 // nobody has more than the list of members: the group begins
	rejoin                // the group has worked without this member, or with it before it lost its directory
)

// decide judges the answers of the others. aged says that this member has waited for amnesia.
//
// To rejoin, a majority of all members must have answered that is whole without this one. Each majority that has
// elected a leader or committed an entry with this member's help has a member among them. So the highest term and the
// newest entry among them are at least those that this member had promised and stored.
func decide(members int, answers []standing, aged bool) verdict {
	whole, began, catching := 0, 0, 0
	for _, s := range answers {
		switch {
		case s.state == stateCatchingUp:
			catching++
		case s.state == stateMember:
			whole++
		}
		if s.began() {
			began++
		}
	}
	switch {
	case len(answers) == members-1 && began == 0 && catching == 0:
		return found
	case began > 0 && whole >= majority(members) && aged:
		return rejoin
	}
	return wait
}

// standing returns what this member has.
func (n *Node) standing() standing {
	v := n.votes.get()
	s := standing{term: v.term}
	s.index, s.last = n.lastEntry()
	switch {
	case n.barred():
		s.state = stateCatchingUp
	case s.index > 0:
		s.state = stateMember
	}
	return s
}

// lastEntry returns the index and term of the newest entry in the log or in a snapshot.
func (n *Node) lastEntry() (index, term uint64) {
	h := n.log.tail()
	if s := n.snapshots.latest(); s.Index > h.index {
		return s.Index, s.Term
	}
	return h.index, h.term
}

// barred reports whether this member is catching up, and so has no vote.
func (n *Node) barred() bool {
	v := n.votes.get()
	if v.missingTerm == 0 {
		return false
	}
	index, term := n.lastEntry()
	if term < v.missingTerm || term == v.missingTerm && index < v.missingIndex {
		return true
	}
	n.votes.change(func(v *votes) { v.missingTerm, v.missingIndex = 0, 0 })
	n.cfg.Events.Event("consensus-caught-up", "index", index)
	return false
}

// settle finds out how a member with an empty directory starts, and prepares its directory. It returns false if the
// node ends before.
func (n *Node) settle() bool {
	began := time.Now()
	told, stuck := "", false // what it has said last
	for {
		answers, silent := n.askAll()
		if n.ctx.Err() != nil {
			return false
		}
		switch decide(len(n.cfg.Members), answers, time.Since(began) >= amnesia) {
		case found:
			n.bootstrap()
			return true
		case rejoin:
			n.rejoin(answers)
			return true
		}
		s, whole := strings.Join(silent, " "), 0
		for _, a := range answers {
			if a.state == stateMember {
				whole++
			}
		}
		switch short := whole < majority(len(n.cfg.Members)); {
		case s == "" && !short: // it waits for amnesia, which takes seconds
		case s != told || s == "" && !stuck:
			told, stuck = s, s == ""
			n.cfg.Events.Event("consensus-waiting", "for", s, "whole", whole)
		}
		clock.Pause(n.ctx, askAgain)
	}
}

// askAll asks all other members for their standing. silent are those that have not answered.
func (n *Node) askAll() (answers []standing, silent []string) {
	var mu sync.Mutex // guards both results
	var wg sync.WaitGroup
	for _, m := range n.cfg.Members {
		if m == n.cfg.Self {
			continue
		}
		wg.Go(func() {
			s, err := n.ask(m)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, m)
				return
			}
			answers = append(answers, s)
		})
	}
	wg.Wait()
	slices.Sort(silent)
	return answers, silent
}

// ask asks the member m for its standing.
func (n *Node) ask(m string) (s standing, err error) {
	ctx, cancel := context.WithTimeout(n.ctx, rpcTimeout)
	defer cancel()
	c, err := n.layer.dial(ctx, m, purposeAsk)
	if err != nil {
		return s, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(rpcTimeout))
	var b [standingSize]byte
	if _, err := io.ReadFull(c.Conn, b[:]); err != nil {
		return s, err
	}
	return parseStanding(b[:])
}

// bootstrap writes the first entry: the list of members, the same at each of them. Repeating it does no harm.
func (n *Node) bootstrap() {
	n.votes.change(func(v *votes) { v.term = 1 })
	err := n.log.StoreLog(&raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: n.configuration()})
	if err == nil {
		n.cfg.Events.Event("consensus-founded", "members", strings.Join(n.cfg.Members, " "))
	}
}

// rejoin takes over the highest term of the others. This member has no vote in that term, and none in later ones
// until it has the newest entry of the others.
func (n *Node) rejoin(answers []standing) {
	var top standing
	for _, s := range answers {
		if s.state != stateMember {
			continue
		}
		top.term = max(top.term, s.term)
		if s.last > top.last || s.last == top.last && s.index > top.index {
			top.last, top.index = s.last, s.index
		}
	}
	n.votes.change(func(v *votes) {
		*v = votes{term: top.term, votedTerm: top.term, candidate: []byte("-"),
			missingTerm: top.last, missingIndex: top.index}
	})
	n.cfg.Events.Event("consensus-catching-up", "index", top.index)
}

// configuration returns the encoded list of members.
func (n *Node) configuration() []byte {
	var c raft.Configuration
	for _, m := range n.cfg.Members {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(m), Address: raft.ServerAddress(m)})
	}
	return raft.EncodeConfiguration(c)
}
