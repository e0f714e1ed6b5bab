package consensus

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// A transport is raft's transport with four differences.
//
//   - It checks calls of other members, because raft panics on some that are malformed.
//   - A heartbeat is answered without raft's main goroutine, which may be waiting for the disk, and changes nothing.
//     Raft's own short cut sets the term beside the main goroutine, and can set it back.
//   - It notes when each member has answered, so that a leader knows how fresh its majority is.
//   - While this member is catching up, it neither asks for votes nor grants any.
type transport struct {
	*raft.NetworkTransport
	self    string
	members []string
	encoded []byte // the configuration
	voter   voter
	events  Events

	raft  atomic.Pointer[raft.Raft] // nil until it runs
	calls chan raft.RPC             // to raft
	beats chan raft.RPC             // heartbeats that were answered; raft notes that it has a leader
	stop  chan struct{}
	pumps sync.WaitGroup

	mu       sync.Mutex // guards contacts
	contacts map[string]contact
}

// A contact is the last question that a member has answered.
type contact struct {
	term uint64
	sent time.Time
}

func (t *transport) start() {
	t.calls, t.beats, t.stop = make(chan raft.RPC), make(chan raft.RPC, 1), make(chan struct{})
	t.contacts = map[string]contact{}
	t.NetworkTransport.SetHeartbeatHandler(t.heartbeat)
	t.pumps.Add(2)
	go t.pump(t.NetworkTransport.Consumer())
	go t.pump(t.beats)
}

// pump passes calls to raft.
func (t *transport) pump(from <-chan raft.RPC) {
	defer t.pumps.Done()
	for {
		select {
		case c := <-from:
			t.pass(c)
		case <-t.stop:
			return
		}
	}
}

func (t *transport) pass(c raft.RPC) {
	if err := t.check(c.Command); err != nil {
		refused(t.events, sender(c.Command), err.Error())
		c.Respond(nil, err)
		return
	}
	select {
	case t.calls <- c:
	case <-t.stop:
	}
}

// close ends the pumps. Raft has stopped.
func (t *transport) close() {
	close(t.stop)
	t.pumps.Wait()
}

func (t *transport) Consumer() <-chan raft.RPC { return t.calls }

func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// heartbeat answers a heartbeat of the leader that raft follows. It leaves all others to raft.
func (t *transport) heartbeat(c raft.RPC) {
	a, ok := c.Command.(*raft.AppendEntriesRequest)
	r := t.raft.Load()
	if !ok || r == nil || a.ProtocolVersion != raft.ProtocolVersionMax {
		t.pass(c)
		return
	}
	leader, _ := r.LeaderWithID()
	if string(a.Addr) != string(leader) || r.State() != raft.Follower || r.CurrentTerm() != a.Term {
		t.pass(c)
		return
	}
	c.Respond(&raft.AppendEntriesResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(t.self), Addr: []byte(t.self)},
		Term:      a.Term, LastLog: r.LastIndex(), Success: true,
	}, nil)
	select {
	case t.beats <- raft.RPC{Command: a, RespChan: make(chan raft.RPCResponse, 1)}:
	default: // raft has one to read
	}
}

func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, a *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) error {
	sent := time.Now()
	err := t.NetworkTransport.AppendEntries(id, to, a, resp)
	if err == nil && resp.Term == a.Term {
		t.mu.Lock()
		defer t.mu.Unlock()
		if c := t.contacts[string(to)]; c.term < a.Term || c.term == a.Term && c.sent.Before(sent) {
			t.contacts[string(to)] = contact{a.Term, sent}
		}
	}
	return err
}

// fresh reports whether a majority, this member included, has answered questions of this term that were sent after
// since.
func (t *transport) fresh(term uint64, since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 1
	for _, c := range t.contacts {
		if c.term == term && c.sent.After(since) {
			n++
		}
	}
	return n >= majority(len(t.members))
}

func majority(members int) int { return members/2 + 1 }

var errCatchingUp = errors.New("this coordinator is catching up, and has no vote yet")

func (t *transport) RequestVote(id raft.ServerID, to raft.ServerAddress, a *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse,
) error {
	if t.voter.barred() {
		return errCatchingUp
	}
	return t.NetworkTransport.RequestVote(id, to, a, resp)
}

func (t *transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, a *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse,
) error {
	if t.voter.barred() {
		return errCatchingUp
	}
	return t.NetworkTransport.RequestPreVote(id, to, a, resp)
}

// sender returns the address in a call.
func sender(command any) string {
	if c, ok := command.(raft.WithRPCHeader); ok {
		return string(c.GetRPCHeader().Addr)
	}
	return ""
}

// check returns why raft must not see a call.
func (t *transport) check(command any) error {
	c, ok := command.(raft.WithRPCHeader)
	if !ok {
		return errors.New("unknown call")
	}
	h := c.GetRPCHeader()
	if string(h.ID) != string(h.Addr) || string(h.Addr) == t.self || !slices.Contains(t.members, string(h.Addr)) {
		return fmt.Errorf("%q is no other member of the group", h.Addr)
	}
	switch a := command.(type) {
	case *raft.AppendEntriesRequest:
		return t.checkEntries(a)
	case *raft.InstallSnapshotRequest:
		switch {
		case a.SnapshotVersion != 1 || a.Size < 0 || a.LastLogIndex == 0 || a.LastLogTerm > a.Term:
			return errors.New("malformed snapshot")
		case string(a.Configuration) != string(t.encoded):
			return errors.New("a snapshot with other members")
		}
	case *raft.RequestVoteRequest:
		if a.LeadershipTransfer {
			return errors.New("leadership is not transferred")
		}
		if t.voter.barred() {
			return errCatchingUp
		}
	case *raft.RequestPreVoteRequest:
		if t.voter.barred() {
			return errCatchingUp
		}
	default:
		return fmt.Errorf("unexpected call %T", command)
	}
	return nil
}

func (t *transport) checkEntries(a *raft.AppendEntriesRequest) error {
	if len(a.Entries) > maxAppend {
		return fmt.Errorf("%d entries in a call; the limit is %d", len(a.Entries), maxAppend)
	}
	term := a.PrevLogTerm
	for i, e := range a.Entries {
		switch {
		case e == nil || e.Index != a.PrevLogEntry+uint64(i)+1 || e.Term < term || e.Term > a.Term:
			return errors.New("entries that do not follow each other")
		case len(e.Data) > maxEntry || len(e.Extensions) > 0:
			return fmt.Errorf("entry %d is too large", e.Index)
		case e.Type == raft.LogConfiguration && string(e.Data) != string(t.encoded):
			return errors.New("an entry with other members")
		case e.Type != raft.LogConfiguration && e.Type != raft.LogCommand && e.Type != raft.LogNoop &&
			e.Type != raft.LogBarrier:
			return fmt.Errorf("entry %d has the unknown type %d", e.Index, e.Type)
		}
		term = e.Term
	}
	return nil
}
