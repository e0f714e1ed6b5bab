package report

import (
	"iter"
	"unsafe"
)

// Hosts returns the number of hosts with a visit.
func (t *Tally) Hosts() int { return t.hosts.count }

// EachHost iterates over the hosts, with the number of pages of each. A name is valid until the next step.
func (t *Tally) EachHost() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for name, h := range t.hosts.all() {
			if !yield(unsafe.String(unsafe.SliceData(name), len(name)), int64(h.pages)) {
				return
			}
		}
	}
}

// HostPages returns the number of pages of one host.
func (t *Tally) HostPages(host string) int64 {
	if h := t.hosts.find(host); h != nil {
		return int64(h.pages)
	}
	return 0
}

// HostURLs returns the number of one host's URLs that are done, with any result.
func (t *Tally) HostURLs(host string) int64 {
	if h := t.hosts.find(host); h != nil {
		return int64(h.urls)
	}
	return 0
}
