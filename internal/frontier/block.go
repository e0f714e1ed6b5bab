package frontier

// Block retires a host: it is not asked again, its links stay. What is in
// process ends as usual. Links that wait in the pools come to its queue as these
// are read, and stay there.
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

// retire blocks h, which is in no heap.
func (f *Frontier) retire(h *host) {
	if !h.retired && !h.busy() {
		f.stats.BlockedLinks += h.links()
	}
	h.retired = true
}

// Unblock takes a Block back.
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
