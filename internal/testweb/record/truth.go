package record

import (
	"io"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A truth is the set of recorded pages that robots.txt does not deny. A crawl with the same seeds and the same bounds
// as the recording should find them. It implements testweb.Truth.
type truth struct {
	a      *Archive
	denied map[uint32]bool // by index in Archive.index
	count  int64
}

// Truth returns the pages that a crawl should find. To find those that robots.txt denies, it reads the URLs of the
// hosts with such rules from the files.
func (a *Archive) Truth() testweb.Truth {
	t := &truth{a: a, denied: map[uint32]bool{}, count: a.summary.Pages}
	for n := range a.hosts {
		h := &a.hosts[n]
		if h.robots[0] == nil && h.robots[1] == nil && len(h.others) == 0 {
			continue
		}
		for i := h.from; i < h.rest; i++ {
			l := locate(t.URL(int64(n), int64(i-h.from)))
			if _, denied := h.rules(l.origin).Forbids(l.target); denied {
				t.denied[i] = true
			}
		}
	}
	t.count -= int64(len(t.denied))
	return t
}

func (t *truth) Reachable() int64 { return t.count }

func (t *truth) Has(host, page int64) bool {
	if host < 0 || host >= t.a.Hosts() || page < 0 {
		return false
	}
	h := &t.a.hosts[host]
	return page < h.Pages && !t.denied[h.from+uint32(page)]
}

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

// URL implements testweb.Truth. It reads the URL from the record, and returns "" if that fails.
func (t *truth) URL(host, page int64) string {
	c := t.a.index[t.a.hosts[host].from+uint32(page)]
	rec, err := warc.At(io.NewSectionReader(t.a.files[c.own.file()], 0, 1<<62), c.own.offset())
	if err != nil {
		return ""
	}
	return rec.URL()
}
