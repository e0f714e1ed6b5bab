package frontier

import (
	"net/netip"
	"slices"
)

// Hosts calls fn for each host in the dictionary, with its address if that is known. fn may block hosts.
func (f *Frontier) Hosts(fn func(host string, addr netip.Addr)) {
	for _, h := range slices.Collect(f.hosts.all()) {
		fn(h.name, h.addr())
	}
}

// Block excludes a host: Next gives out none of its links, but they stay queued. A request in process ends as usual.
// Links in the pools reach the host's queue when the pools are read, and stay there.
func (f *Frontier) Block(host string) {
	h := f.host(host)
	if h.retired {
		return
	}
	busy := h.busy()
	if !busy {
		f.leave(h)
	}
	f.retire(h)
	if !busy {
		f.place(h)
	}
}

// retire blocks h, which must be in no heap.
func (f *Frontier) retire(h *host) {
	if !h.retired && !h.busy() {
		f.stats.BlockedLinks += h.links()
	}
	h.retired = true
}

// Unblock reverses Block.
func (f *Frontier) Unblock(host string) {
	h := f.hosts.of(host)
	if h == nil || !h.retired {
		return
	}
	h.retired = false
	if h.state == blocked {
		f.stats.BlockedLinks -= h.links()
		f.place(h)
	}
}
