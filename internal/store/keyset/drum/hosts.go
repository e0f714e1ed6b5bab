package drum

import "math/bits"

// A hostIndex says where in a table the keys of a host are. The table itself
// finds keys, not hosts, and to read one host out is to look at all of its keys,
// milliseconds; so when many hosts are read out, as they are when they move to
// another agent, an index is made. It takes some five octets for each of the
// table's keys.
type hostIndex struct {
	upTo   int // positions below it are in the index
	shift  uint
	starts []uint32 // of groups of hosts, by the top bits of h
	places []uint32 // positions, ascending in each group
	seen   int      // keys looked at without the index
}

const (
	// groupKeys is how many keys share an entry of starts.
	groupKeys = 16
	// scansWorth is how often as many keys are looked at as there are before an
	// index is made, which takes as long as some such scans.
	scansWorth = 4
)

// ofHost calls fn with the positions of a host's keys, from or later, ascending.
func (t *table) ofHost(h uint64, from int, fn func(pos int)) {
	x := &t.hosts
	if x.seen > scansWorth*t.n {
		t.indexHosts()
	}
	if from < x.upTo {
		g := h >> x.shift
		for _, pos := range x.places[x.starts[g]:x.starts[g+1]] {
			if int(pos) >= from && t.at(int(pos)).h == h {
				fn(int(pos))
			}
		}
	}
	begin := max(from, x.upTo)
	for i := begin; i < t.n; i++ {
		if t.at(i).h == h {
			fn(i)
		}
	}
	x.seen += max(t.n-begin, 0)
}

// indexHosts sorts the positions of all keys by the top bits of their hosts.
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
