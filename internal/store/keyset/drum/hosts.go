package drum

import "math/bits"

// A hostIndex finds the keys of a host in a table. The table itself finds keys, not hosts: reading out one host scans
// all keys, which takes milliseconds. When many hosts are read out, because they move to another agent, an index is
// built. It takes about five bytes per key.
type hostIndex struct {
	upTo   int // the index covers the positions below
	shift  uint
	starts []uint32 // start of each group of hosts in places; the group is the top bits of h
	places []uint32 // positions, ascending within each group
	seen   int      // keys scanned without the index
}

const (
	// groupKeys is the mean number of keys per entry of starts.
	groupKeys = 16
	// scansWorth is the number of full scans after which an index is built. Building it takes as long as a few scans.
	scansWorth = 4
)

// ofHost calls fn with the positions of the keys of host h, in ascending order.
func (t *table) ofHost(h uint64, fn func(pos int)) {
	x := &t.hosts
	if x.seen > scansWorth*t.n {
		t.indexHosts()
	}
	if x.upTo > 0 {
		g := h >> x.shift
		for _, pos := range x.places[x.starts[g]:x.starts[g+1]] {
			if t.at(int(pos)).h == h {
				fn(int(pos))
			}
		}
	}
	for i := x.upTo; i < t.n; i++ {
		if t.at(i).h == h {
			fn(i)
		}
	}
	x.seen += t.n - x.upTo
}

// indexHosts builds the index: it sorts the positions of all keys by the top bits of their hosts.
func (t *table) indexHosts() {
	x := hostIndex{upTo: t.n, shift: 64 - max(uint(bits.Len(uint(t.n/groupKeys))), 1)}
	x.starts = make([]uint32, 1<<(64-x.shift)+1)
	for i := range t.n {
		x.starts[t.at(i).h>>x.shift+1]++
	}
	for g := 1; g < len(x.starts); g++ {
		x.starts[g] += x.starts[g-1]
	}
	x.places = make([]uint32, t.n)
	next := append([]uint32(nil), x.starts...)
	for i := range t.n {
		g := t.at(i).h >> x.shift
		x.places[next[g]] = uint32(i)
		next[g]++
	}
	t.hosts = x
}

func (x *hostIndex) bytes() int64 { return int64(len(x.starts)+len(x.places)) * 4 }
