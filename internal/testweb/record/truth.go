package record

import (
	"io"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A truth is the recorded pages that robots.txt does not deny: what a crawl
// should find that begins with the same seeds and has the same bounds as the
// recorded one.
type truth struct {
	a      *Archive
	denied map[uint32]bool // by place in the index
	count  int64
}

// Truth reads the URLs of the hosts whose robots.txt denies something.
func (a *Archive) Truth() testweb.Truth {
	t := &truth{a: a, denied: map[uint32]bool{}, count: a.summary.Pages}
	for n := range a.hosts {
		h := &a.hosts[n]
		if h.robots[0] == nil && h.robots[1] == nil {
			continue
		}
		for i := h.from; i < h.rest; i++ {
			l := locate(t.URL(int64(n), int64(i-h.from)))
			scheme := 0
			if l.secure {
				scheme = 1
			}
			if _, denied := h.robots[scheme].Forbids(l.target); denied {
				t.denied[i] = true
			}
		}
	}
	t.count -= int64(len(t.denied))
	return t
}

// Reachable implements testweb.Truth.
func (t *truth) Reachable() int64 { return t.count }

// Has implements testweb.Truth.
func (t *truth) Has(host, page int64) bool {
	if host < 0 || host >= t.a.Hosts() || page < 0 {
		return false
	}
	h := &t.a.hosts[host]
	return page < h.Pages && !t.denied[h.from+uint32(page)]
}

// Each implements testweb.Truth.
func (t *truth) Each(f func(host, page int64)) {
	for n := range t.a.hosts {
		h := &t.a.hosts[n]
		for i := h.from; i < h.rest; i++ {
			if !t.denied[i] {
				f(int64(n), int64(i-h.from))
			}
		}
	}
}

// URL implements testweb.Truth: it is read from the record, "" where that is
// impossible now.
func (t *truth) URL(host, page int64) string {
	c := t.a.index[t.a.hosts[host].from+uint32(page)]
	rec, err := warc.At(io.NewSectionReader(t.a.files[c.own.file()], 0, 1<<62), c.own.offset())
	if err != nil {
		return ""
	}
	return rec.URL()
}
