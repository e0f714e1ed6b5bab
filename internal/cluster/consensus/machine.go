package consensus

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/wake"
)

// A machine is the raft.FSM around the Machine of the caller. It applies nothing after a failure, because raft may
// believe things then that are not on disk.
type machine struct{ n *Node }

// applied is what Apply returns to raft.
type applied struct{ result any }

func (m *machine) Apply(l *raft.Log) any {
	n := m.n
	if n.health.err() != nil {
		return nil
	}
	result := n.cfg.Machine.Apply(l.Index, l.Data)
	n.barred() // notes that this member has caught up
	if n.wantsSnapshot() {
		wake.Up(n.snapshot)
	}
	return applied{result}
}

// wantsSnapshot reports whether the log has grown enough.
func (n *Node) wantsSnapshot() bool {
	return n.log.bytes() >= max(n.cfg.SnapshotBytes, n.snapshots.latest().Size)
}

func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	s, err := m.n.cfg.Machine.Snapshot()
	if err != nil {
		return nil, err
	}
	return view{s}, nil
}

func (m *machine) Restore(r io.ReadCloser) error { return m.n.health.fail(m.restore(r)) }

// restore reads r to its end, where its checksum is. If the checksum is wrong, the error says so, whatever the machine
// says of the data.
func (m *machine) restore(r io.Reader) error {
	err := m.n.cfg.Machine.Restore(r)
	if _, damaged := io.Copy(io.Discard, r); damaged != nil {
		err = damaged
	}
	if err != nil {
		err = fmt.Errorf("restore a snapshot: %w", err)
	}
	return err
}

// A view is a Snapshot for raft. It implements raft.FSMSnapshot.
type view struct{ s Snapshot }

func (v view) Persist(k raft.SnapshotSink) error { return v.s.Write(k) }

func (v view) Release() { v.s.Release() }

// takeSnapshots makes a snapshot when the log has grown enough. It runs until the node ends.
func (n *Node) takeSnapshots() {
	for {
		select {
		case <-n.snapshot:
		case <-n.ctx.Done():
			return
		}
		r := n.raft.Load()
		if r == nil || !n.wantsSnapshot() {
			continue
		}
		grown := n.log.bytes()
		err := r.Snapshot().Error()
		switch {
		case err == nil:
			s := n.snapshots.latest()
			n.cfg.Events.Event("consensus-snapshot", "index", s.Index, "bytes", s.Size, "log", grown)
		case n.ctx.Err() == nil && !errors.Is(err, raft.ErrNothingNewToSnapshot):
			n.cfg.Events.Event("consensus-snapshot-failed", "cause", err.Error())
			clock.Pause(n.ctx, time.Minute)
		}
	}
}
