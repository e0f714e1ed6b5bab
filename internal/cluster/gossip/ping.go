package gossip

import (
	"encoding/binary"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/orbweaver/orbweaver/internal/clock"
)

// pings puts the view's digest into the answers to the failure detector's pings.
type pings struct {
	m *Member
	t *transport
}

// AckPayload returns the digest of our view, for our answers to pings: 8 octets, big-endian.
func (p pings) AckPayload() []byte {
	return binary.BigEndian.AppendUint64(nil, p.m.View().Digest())
}

// NotifyPingComplete is called for each answer to a ping over UDP. rtt is the packet's time stamp
// minus the time of the ping. We need the time of the ping, and it must not come out too late, even
// if this process was stopped before the call. So the transport stamps all packets with its own
// start, and the time of the ping follows from that. Nothing else uses the stamps.
func (p pings) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, payload []byte) {
	if len(payload) != 8 {
		return
	}
	digest := binary.BigEndian.Uint64(payload)
	if digest != p.m.View().Digest() {
		select {
		case p.m.differ <- n.Name + "/" + n.Address():
		default: // another agent differs, too
		}
	}
	if p.m.config.Watcher != nil {
		p.m.config.Watcher.Pinged(digest, p.t.began.Add(-rtt))
	}
}

// compareEvery is the least interval between two comparisons. The interval grows by as much again
// for every compareMore agents, because the data sent grows with them.
const compareEvery, compareMore = 1, 64

// compare compares all knowledge with agents that have another view. Gossip sends a change a few
// times, to some of the agents known at that time. If several agents join at once, one may not hear
// of another before memberlist's next regular comparison.
func (m *Member) compare(list *memberlist.Memberlist) {
	for {
		select {
		case at := <-m.differ:
			list.Join([]string{at}) // after an error, the next answer reports the difference again
		case <-m.ctx.Done():
			return
		}
		if !clock.Pause(m.ctx, interval*time.Duration(compareEvery+len(m.View().Agents)/compareMore)) {
			return
		}
		select {
		case <-m.differ: // from before the comparison
		default:
		}
	}
}

// A Life is one run of an agent, from its start to its end.
type Life struct {
	Instance [16]byte
	Boot     uint64
}

// An Ending is the end in order of a life.
type Ending struct {
	Life
	Left bool // the agent has said that it leaves for good, with its archive
}

// Met returns how many starts of agents, including this one, have been in this agent's views so
// far. Beyond 1024 the number is not exact.
func (m *Member) Met() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.met)
}

// Knows reports whether a start of an agent is, or was, in a view of this agent.
func (m *Member) Knows(name string, instance [16]byte, boot uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.living[name]; ok && a.Instance == instance && a.Boot == boot {
		return true
	}
	met, ok := m.met[Life{instance, boot}]
	return ok && met == name
}
