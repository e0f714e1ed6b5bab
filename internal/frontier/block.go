package frontier

import (
	"net/netip"
	"slices"
)

// Hosts calls fn for each host in the dictionary, with its address if that is known. fn may block hosts.
func (f *Frontier) Hosts(fn func(host string, addr netip.Addr)) {
	for _, h := range slices.Collect(f.hosts.dict.all()) {
		fn(h.name, h.addr())
	}
}

// Block excludes a host: Next gives out none of its links, but they stay queued. A request in process ends as usual.
// Links in the pools reach the host's queue when the pools are read, and stay there.
func (f *Frontier) Block(host string) {
	h := f.hosts.host(host)
	if h.retired {
		return
	}
	busy := h.busy()
	if !busy {
		f.hosts.leave(h)
	}
	f.hosts.retire(h)
	if !busy {
		f.hosts.place(h)
	}
}

// retire blocks h, which must be in no heap.
func (hs *hosts) retire(h *host) {
	if !h.retired && !h.busy() {
		hs.stats.BlockedLinks += h.links()
	}
	h.retired = true
}

// Unblock reverses Block.
func (f *Frontier) Unblock(host string) {
	h := f.hosts.dict.of(host)
	if h == nil || !h.retired {
		return
	}
	h.retired = false
	if h.state == blocked {
		f.hosts.stats.BlockedLinks -= h.links()
		f.hosts.place(h)
	}
}
