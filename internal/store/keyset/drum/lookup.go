package drum

import (
	"sort"
	"sync/atomic"
)

// A lookup searches queries, sorted by key, in the runs of a bucket, one run after the other. A value found first
// stays.
type lookup struct {
	q []query
	// hostKeys counts the keys of each host, in the entry of the host's first query.
	hostKeys []int64
	values   []uint64 // values of known queries; nil in a Store without values
	stop     *atomic.Bool
	out      []uint64
}

func (lk *lookup) run(rr *runReader) error {
	r, q := rr.r, lk.q
	n := len(r.blocks) - 1
	qi := 0
	for i := range n {
		if lk.stop.Load() {
			return errStopped
		}
		first, next := r.blocks[i].h, r.blocks[i+1].h
		qi += sort.Search(len(q)-qi, func(j int) bool { return q[qi+j].h >= first })
		if qi == len(q) {
			break
		}
		if q[qi].h > next {
			continue
		}
		if i+1 < n && lk.skipsBlock(r, i, qi) {
			lk.hostKeys[qi] += 2 * r.keys / int64(n)
			continue
		}
		b, err := rr.block(i, lk.readUpTo(r, i, qi))
		if err != nil {
			return err
		}
		if err := lk.block(b, qi); err != nil {
			return r.damage(rr.v, r.blocks[i].offset(), err)
		}
	}
	return nil
}

// after returns the first query from i on for which before is false. before must be true for all earlier queries. The
// cost is logarithmic in the distance.
func (lk *lookup) after(i int, before func(*query) bool) int {
	q, step := lk.q, 1
	for i+step <= len(q) && before(&q[i+step-1]) {
		i += step
		step *= 2
	}
	n := min(step-1, len(q)-i)
	return i + sort.Search(n, func(j int) bool { return !before(&q[i+j]) })
}

// removeKnown removes the known queries. Without values, later runs have nothing to add to them.
func (lk *lookup) removeKnown() {
	q, n := lk.q, 0
	for i := 0; i < len(q); {
		h, hostKeys, from := q[i].h, lk.hostKeys[i], n
		for ; i < len(q) && q[i].h == h; i++ {
			if q[i].flag&queryKnown == 0 {
				q[n] = q[i]
				n++
			}
		}
		if n > from {
			lk.hostKeys[from] = hostKeys
		}
	}
	lk.q = q[:n]
}

// skipsBlock reports whether block i can be skipped: it holds a single class of a single host, and none of the queries
// from qi on can be in it.
func (lk *lookup) skipsBlock(r *run, i, qi int) bool {
	a, b := r.blocks[i], r.blocks[i+1]
	if a.h != b.h || a.class() != b.class() || lk.q[qi].h != a.h {
		return false
	}
	w := width(a.class())
	mask := ^uint64(0) << (64 - w)
	q := lk.q[qi:]
	j := sort.Search(len(q), func(j int) bool { return q[j].h > a.h || q[j].p >= a.p })
	return j == len(q) || q[j].h > a.h || q[j].p&mask > b.p
}

// readUpTo returns the end of the sequence of blocks, starting at i, that will all be read.
func (lk *lookup) readUpTo(r *run, i, qi int) int {
	n := len(r.blocks) - 1
	for i++; i < n; i++ {
		h := r.blocks[i].h
		q := lk.q[qi:]
		j := sort.Search(len(q), func(j int) bool { return q[j].h >= h })
		if j == len(q) || q[j].h > r.blocks[i+1].h || r.blocks[i].h == r.blocks[i+1].h {
			break
		}
		qi += j
	}
	return i
}

// block searches the queries from qi on in one block. Earlier queries are of hosts before the block.
func (lk *lookup) block(b *block, qi int) error {
	q := lk.q
	end := qi // of the queries of q[qi]'s host
	var l list
	for {
		if err := b.next(&l); err != nil {
			return err
		}
		if l.n == 0 {
			return nil
		}
		if q[qi].h < l.h {
			qi = lk.after(max(qi, end), func(k *query) bool { return k.h < l.h })
			if qi == len(q) {
				return nil // no query needs the rest of the block
			}
			end = qi
		}
		if q[qi].h != l.h {
			continue
		}
		if end == qi {
			end = lk.after(qi, func(k *query) bool { return k.h == l.h })
		}
		lk.hostKeys[qi] += int64(l.n)
		shift := 64 - width(l.class)
		if q[end-1].p>>shift < l.first {
			continue
		}
		vals, err := b.read(&l, lk.out)
		if err != nil {
			return err
		}
		// A host with many lists has many queries, and most lists concern few of them.
		from, j := qi, 0
		if q[qi].p>>shift < vals[0] {
			from = lk.after(qi, func(k *query) bool { return k.h == l.h && k.p>>shift < vals[0] })
		}
		for i := from; i < end; i++ {
			v := q[i].p >> shift
			for j+8 <= len(vals) && vals[j+7] < v {
				j += 8
			}
			for j < len(vals) && vals[j] < v {
				j++
			}
			if j == len(vals) {
				break
			}
			if vals[j] != v || q[i].flag&queryKnown != 0 {
				continue
			}
			q[i].flag |= queryKnown
			if lk.values != nil {
				lk.values[i] = b.value(l.index + j)
			}
		}
	}
}
