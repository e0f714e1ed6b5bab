package follower

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
)

// Agrees reports whether the roster has the same agents as a view of gossip: then all agents that own hosts can be
// asked whether they are idle. It also reports whether no host waits for an agent. A nil Follower agrees.
func (f *Follower) Agrees(v *gossip.View) bool {
	if f == nil {
		return true
	}
	r := f.Table.Roster()
	if r == nil || f.Table.Status().Waiting > 0 {
		return false
	}
	for _, m := range r.Members {
		if a, ok := v.Agent(m.Name); !ok || a.Instance != m.Instance {
			return false
		}
	}
	for _, a := range v.Agents {
		if m, ok := r.Member(a.Name); a.State == gossip.Up && (!ok || m.Instance != a.Instance) {
			return false
		}
	}
	return true
}

// A Point is a place in the stream of the coordinators: the last entry, and the term of the last roster.
type Point struct{ term, number uint64 }

// At returns the Point up to which this agent has applied the stream. It is zero for a nil Follower.
func (f *Follower) At() (p Point) {
	if f != nil {
		p = Point{f.Table.View(), f.Table.Number()}
	}
	return p
}

// Digest identifies a view of gossip together with a point.
func (p Point) Digest(v *gossip.View) uint64 {
	if p == (Point{}) {
		return v.Digest()
	}
	h := fnv.New64a()
	for _, n := range []uint64{v.Digest(), p.term, p.number} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, n)) // has no error
	}
	return h.Sum64()
}

const (
	// finishWait bounds the time in which all agents must tell the coordinators to end the crawl.
	finishWait = 3 * time.Second
	// finishAgain is the pause between two attempts.
	finishAgain = 10 * time.Millisecond
)

// Finish tells the coordinators that this agent agrees to end the crawl at a point. It reports whether all agents do.
// Nobody needs to be told for a nil Follower.
func (f *Follower) Finish(ctx context.Context, p Point) bool {
	if f == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, finishWait)
	defer cancel()
	for ctx.Err() == nil {
		if r := f.Table.Roster(); r != nil && r.Ended {
			return true
		}
		if leader := f.Table.Status().Leader; leader != "" && f.At() == p {
			err := f.cfg.Calls.Finish(ctx, leader, p.term, p.number)
			if err == nil {
				return true
			}
		} else if f.At() != p && !f.isOver() {
			return false
		}
		clock.Pause(ctx, finishAgain)
	}
	return f.isOver()
}

// isOver reports whether the coordinators have ended the crawl.
func (f *Follower) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}
