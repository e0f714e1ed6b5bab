package report

import (
	"iter"
	"time"
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

// A HostCount has the counts of one host.
type HostCount struct {
	Host                               string
	Pages, URLs, Errors, Denied, Bytes int64
	Latency                            time.Duration // mean of the last responses; zero: unknown
}

// EachHostCount passes the counts of up to n hosts to fn, from the one with the number from on. It returns the number
// of the next host. Hosts are numbered in the order of their first visit. A name is valid as long as fn runs.
func (t *Tally) EachHostCount(from, n int, fn func(*HostCount)) (next int) {
	var c HostCount
	for next = from; next < t.hosts.count && next < from+n; next++ {
		name := t.hosts.name(next)
		t.hosts.entry(next).v.count(&c, unsafe.String(unsafe.SliceData(name), len(name)))
		fn(&c)
	}
	return next
}

// HostCount returns the counts of one host. ok is false if there was no visit.
func (t *Tally) HostCount(host string) (c HostCount, ok bool) {
	h := t.hosts.find(host)
	if h != nil {
		h.count(&c, host)
	}
	return c, h != nil
}

// HostKnown reports whether a host was visited.
func (t *Tally) HostKnown(host string) bool { return t.hosts.find(host) != nil }

func (h *hostCount) count(c *HostCount, name string) {
	*c = HostCount{Host: name, Pages: int64(h.pages), URLs: int64(h.urls), Errors: int64(h.errors),
		Denied: int64(h.denied), Bytes: h.size(), Latency: time.Duration(h.latency) * time.Microsecond}
}

// HostPages returns the number of pages of one host.
func (t *Tally) HostPages(host string) int64 {
	if h := t.hosts.find(host); h != nil {
		return int64(h.pages)
	}
	return 0
}

// HostFiles returns the number of files of one host that pages embed.
func (t *Tally) HostFiles(host string) int64 {
	if h := t.hosts.find(host); h != nil {
		return int64(h.files)
	}
	return 0
}

// HostServes reports whether a host has answered a request for a page or a file with success.
func (t *Tally) HostServes(host string) bool { return t.HostPages(host)+t.HostFiles(host) > 0 }

// HostURLs returns the number of one host's URLs that are done, with any result.
func (t *Tally) HostURLs(host string) int64 {
	if h := t.hosts.find(host); h != nil {
		return int64(h.urls)
	}
	return 0
}
