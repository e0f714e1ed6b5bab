package member

import (
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
	if p.m.config.Pinged == nil {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, p.m.View().Digest())
}

// NotifyPingComplete is called for each answer to a ping over UDP. rtt is the
// packet's time stamp minus the time at which the ping was sent. It is that time
// that counts, and it must not be later than it was, however long we were stopped
// before we come to be called: so all packets are stamped with the beginning of
// the transport, from which that time follows. Nothing else looks at the stamps.
func (p pings) NotifyPingComplete(_ *memberlist.Node, rtt time.Duration, payload []byte) {
	if p.m.config.Pinged != nil && len(payload) == 8 {
		p.m.config.Pinged(binary.BigEndian.Uint64(payload), p.t.began.Add(-rtt))
	}
}

// A life is an agent between its start and its end.
type life struct {
	instance [16]byte
	boot     uint64
}

// Met is how many lives of agents have been in our views so far, this one
// included; beyond 1024 it is not known exactly.
func (m *Member) Met() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.met)
}
