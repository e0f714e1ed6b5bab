package frontier

import (
	"iter"
	"maps"
)

// A dict is Polybot's host dictionary: a map that returns memory when hosts leave.
type dict struct {
	m    map[string]*host
	most int // length of m since it was made
}

func newDict() dict { return dict{m: map[string]*host{}} }

func (d *dict) len() int { return len(d.m) }

// of returns the host with this name, or nil.
func (d *dict) of(name string) *host { return d.m[name] }

// add adds h, which must not be there.
func (d *dict) add(h *host) {
	d.m[h.name] = h
	d.most = max(d.most, len(d.m))
}

func (d *dict) remove(h *host) {
	delete(d.m, h.name)
	if n := len(d.m); d.most > 1<<12 && n < d.most/4 {
		m := make(map[string]*host, n)
		maps.Copy(m, d.m)
		d.m, d.most = m, n
	}
}

// all iterates over the hosts, from any of them on. The caller must not add or remove hosts meanwhile.
func (d *dict) all() iter.Seq[*host] { return maps.Values(d.m) }

// queues iterates over the queues of the hosts, of all levels. The caller may give each a rest meanwhile.
func (d *dict) queues() iter.Seq[*queue] {
	return func(yield func(*queue) bool) {
		for _, h := range d.m {
			for q := h.first(); q != nil; q = q.next() {
				if !yield(q) {
					return
				}
			}
		}
	}
}
