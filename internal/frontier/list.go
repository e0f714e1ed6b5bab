package frontier

import "time"

// EachQueue passes the name of each host that the frontier knows to fn, and the number of its links that are queued, in
// no particular order. Hosts whose links are all in pools are not known. fn must not call methods of f.
func (f *Frontier) EachQueue(fn func(host string, links int64)) {
	for h := range f.hosts.dict.all() {
		fn(h.name, h.links())
	}
}

// HostQueue returns the number of links that are queued for a host, without the one in process and those in pools, the
// least time between two requests to it, and the host's state, as in an Explanation.
func (f *Frontier) HostQueue(host string) (links int64, delay time.Duration, state string) {
	h := f.hosts.dict.of(host)
	if h == nil {
		return 0, 0, "unknown"
	}
	state = h.state.String()
	if h.retired && !h.busy() {
		state = blocked.String()
	} else if h.state == ready && f.hosts.shares.groupOf(h).parkedAt != nil {
		state = parked.String()
	}
	return h.links(), max(f.HostDelay(h.name), h.delay), state
}
