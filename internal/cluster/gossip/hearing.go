package gossip

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// A hearing knows when a packet last came from each address. Safe for concurrent use.
type hearing struct {
	mu sync.Mutex // guards at
	at map[string]time.Time
}

func newHearing() *hearing { return &hearing{at: map[string]time.Time{}} }

func (h *hearing) note(from net.Addr) {
	addr, ok := from.(*net.UDPAddr)
	if !ok {
		return
	}
	at := addr.AddrPort()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.at) >= 4*maxLost { // anyone can send packets; agents that are alive come back at once
		clear(h.at)
	}
	h.at[netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String()] = time.Now()
}

// Silent returns for how long this agent has received no packet from an agent that is not in the
// View any more. Pings that the agent sent within that time had no answer that counts as Pinged:
// either this agent did not receive them, or its View was without that agent. Zero means that it is
// unknown.
func (m *Member) Silent(a Agent) time.Duration {
	m.mu.Lock()
	addr := m.lost[a.Instance].gossip
	m.mu.Unlock()
	m.heard.mu.Lock()
	defer m.heard.mu.Unlock()
	if at, ok := m.heard.at[addr]; ok {
		return time.Since(at)
	}
	return 0
}
