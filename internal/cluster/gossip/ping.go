package gossip

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/hashicorp/memberlist"
)

// pings lets the answers to the failure detector's pings carry the view's digest.
type pings struct {
	m *Member
	t *transport
}

// AckPayload is what our answers to pings carry: 8 octets, big endian.
func (p pings) AckPayload() []byte {
	return binary.BigEndian.AppendUint64(nil, p.m.View().Digest())
}

// NotifyPingComplete is called for each answer to a ping over UDP. rtt is the
// packet's time stamp minus the time at which the ping was sent. It is that time
// that counts, and it must not be later than it was, however long we were stopped
// before we come to be called: so all packets are stamped with the beginning of
// the transport, from which that time follows. Nothing else looks at the stamps.
func (p pings) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, payload []byte) {
	if len(payload) != 8 {
		return
	}
	digest := binary.BigEndian.Uint64(payload)
	if digest != p.m.View().Digest() {
		select {
		case p.m.differ <- n.Name + "/" + n.Address():
		default: // somebody else differs
		}
	}
	if p.m.config.Pinged != nil {
		p.m.config.Pinged(digest, p.t.began.Add(-rtt))
	}
}

// compareEvery bounds how often all that is known is compared, in intervals, and
// for each so many agents once more, as what is sent grows with them.
const compareEvery, compareMore = 1, 64

// compare compares all with those whose views are others than ours. Gossip tells a
// change some times, to some of those who are there at that time: when several
// agents come at once, one of them may not hear of another before the next
// comparison that memberlist makes by itself.
func (m *Member) compare(list *memberlist.Memberlist) {
	for {
		select {
		case at := <-m.differ:
			list.Join([]string{at}) // an error: the next answer says it again
		case <-m.ctx.Done():
			return
		}
		if !pass(m.ctx, m.config.Interval*time.Duration(compareEvery+len(m.View().Agents)/compareMore)) {
			return
		}
		select {
		case <-m.differ: // that was then
		default:
		}
	}
}

// pass waits, and says whether ctx is still there.
func pass(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A life is an agent between its start and its end.
type life struct {
	instance [16]byte
	boot     uint64
}

// Met returns how many starts of agents have been in this agent's views so far, with its own.
// Beyond 1024 the number is not exact.
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
	met, ok := m.met[life{instance, boot}]
	return ok && met == name
}
