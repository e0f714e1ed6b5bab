package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/orbweaver/orbweaver/internal/wake"
)

// begin returns raft for one call. If it succeeds, the caller calls n.calls.Done at the end.
func (n *Node) begin() (*raft.Raft, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing || n.ctx.Err() != nil || n.health.err() != nil {
		return nil, ErrStopped
	}
	r := n.raft.Load()
	if r == nil || r.State() != raft.Leader {
		return nil, ErrNotLeader
	}
	n.calls.Add(1)
	return r, nil
}

// Propose appends a command to the log of the group. It blocks until the command is committed and applied here, and
// returns the result of Apply. Only the leader can propose. If ctx ends first, the error is ErrUnknown. The caller
// must not change command afterwards.
func (n *Node) Propose(ctx context.Context, command []byte) (result any, err error) {
	if len(command) > MaxCommand {
		return nil, fmt.Errorf("%w: %d bytes; the limit is %d", ErrTooLarge, len(command), MaxCommand)
	}
	select {
	case n.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx) // it was not proposed
	}
	r, err := n.begin()
	if err != nil {
		<-n.slots
		return nil, err
	}
	type outcome struct {
		result any
		err    error
	}
	got := make(chan outcome, 1)
	go func() {
		defer n.calls.Done()
		f := r.Apply(command, 0)
		err := f.Error()
		var o outcome
		switch a, ok := f.Response().(applied); {
		case errors.Is(err, raft.ErrNotLeader):
			o.err = ErrNotLeader
		case err != nil:
			o.err = fmt.Errorf("%w: %w", ErrUnknown, err)
		case !ok:
			o.err = ErrUnknown
		default:
			o.result = a.result
		}
		<-n.slots
		got <- o
	}()
	select {
	case o := <-got:
		return o.result, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	}
}

// A verification is one question to the others that all callers of Verify wait for who came before it was asked.
type verification struct {
	done chan struct{}
	err  error
}

// Verify returns nil if this member was the leader at some moment after the call: a majority has said so.
func (n *Node) Verify(ctx context.Context) error {
	n.mu.Lock()
	v := n.next
	if v == nil {
		v = &verification{done: make(chan struct{})}
		n.next = v
	}
	n.mu.Unlock()
	select {
	case n.verifying <- struct{}{}: // nobody asks at the moment
		n.mu.Lock()
		mine := n.next == v
		if mine {
			n.next = nil
		}
		n.mu.Unlock()
		if !mine {
			<-n.verifying
			break
		}
		r, err := n.begin()
		if err != nil {
			v.err = err
			close(v.done)
			<-n.verifying
			return err
		}
		go func() {
			defer n.calls.Done()
			if err := r.VerifyLeader().Error(); err != nil {
				v.err = ErrNotLeader
			}
			close(v.done)
			<-n.verifying
		}()
	case <-v.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-v.done:
		return v.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leader returns the address of the leader as far as this member knows it, or "". self reports that this member leads
// and has applied everything that was committed before it did. A majority has confirmed that with answers to questions
// that are at most one second old. So a leader that has lost its majority knows it after one second, even if its disk
// stands still.
func (n *Node) Leader() (addr string, self bool) {
	r := n.raft.Load()
	if r == nil || n.health.err() != nil {
		return "", false
	}
	term := r.CurrentTerm()
	leader, _ := r.LeaderWithID()
	if string(leader) != n.cfg.Self {
		return string(leader), false
	}
	if r.State() != raft.Leader || n.ready.Load() != term || !n.transport.fresh(term, time.Now().Add(-lease)) {
		return "", false
	}
	return n.cfg.Self, true
}

// Changes returns a channel that gets a value after each change of the leader. Values may be merged. A leader that
// learns from Leader that it has lost its majority gets one only when raft has noticed it, too.
func (n *Node) Changes() <-chan struct{} { return n.changes }

// observe learns of changes from raft, on raft's main goroutine. Raft drops what it observed if the result is false.
func (n *Node) observe(o *raft.Observation) bool {
	switch d := o.Data.(type) {
	case raft.LeaderObservation:
		if d.LeaderAddr != "" {
			n.cfg.Events.Event("consensus-leader", "leader", string(d.LeaderAddr), "term", o.Raft.CurrentTerm())
		}
	case raft.RaftState:
		if d == raft.Leader {
			n.prepare(o.Raft.CurrentTerm())
		}
	default:
		return false
	}
	n.changed()
	return false
}

func (n *Node) changed() {
	wake.Up(n.changes)
}

// prepare waits, in the background, until a new leader has applied all entries of earlier terms.
func (n *Node) prepare(term uint64) {
	r, err := n.begin()
	if err != nil {
		return
	}
	go func() {
		defer n.calls.Done()
		if r.Barrier(0).Error() == nil {
			n.ready.Store(term)
			n.changed()
		}
	}()
}

// A Status is a view of a member for people.
type Status struct {
	Voting          bool   // it takes part, and is not catching up
	Leader          string // as Leader returns it
	Term            uint64
	Last, Committed uint64 // entries: the newest one here, and the newest one that a majority has
	LogBytes        int64  // since the newest snapshot
}

// Status returns the member's state.
func (n *Node) Status() Status {
	s := Status{Term: n.votes.get().term, LogBytes: n.log.bytes()}
	s.Last, _ = n.lastEntry()
	s.Leader, _ = n.Leader()
	if r := n.raft.Load(); r != nil {
		s.Voting, s.Committed = !n.barred(), r.CommitIndex()
	}
	return s
}
