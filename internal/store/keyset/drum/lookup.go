package drum

import (
	"sort"
	"sync/atomic"
)

// A lookup finds queries, sorted by key, in the runs of a bucket; what one has
// found counts before what the next one has.
type lookup struct {
	q []query
	// mass counts, at the first query of each host, the host's keys.
	mass    []int64
	values  []uint64 // of known queries; nil in a Store without values
	dropped map[uint64]int
	stop    *atomic.Bool
	out     []uint64
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
		if i+1 < n && lk.passes(r, i, qi) {
			lk.mass[qi] += 2 * r.keys / int64(n)
			continue
		}
		b, err := rr.block(i, lk.wanted(r, i, qi))
		if err != nil {
			return err
		}
		if err := lk.block(b, qi); err != nil {
			return r.damage(rr.v, r.blocks[i].offset(), err)
		}
	}
	return nil
}

// after is the first query from i on of which before does not hold, as it does
// of all in front of it. It takes as long as it is away, in bits.
func (lk *lookup) after(i int, before func(*query) bool) int {
	q, step := lk.q, 1
	for i+step <= len(q) && before(&q[i+step-1]) {
		i += step
		step *= 2
	}
	n := min(step-1, len(q)-i)
	return i + sort.Search(n, func(j int) bool { return !before(&q[i+j]) })
}

// settle takes out the queries that are known: a set has no more to say to them.
func (lk *lookup) settle() {
	q, n := lk.q, 0
	for i := 0; i < len(q); {
		h, mass, from := q[i].h, lk.mass[i], n
		for ; i < len(q) && q[i].h == h; i++ {
			if q[i].flag&queryKnown == 0 {
				q[n] = q[i]
				n++
			}
		}
		if n > from {
			lk.mass[from] = mass
		}
	}
	lk.q = q[:n]
}

// passes says whether block i, which lies within a single class of a single
// host, has none of the queries from qi on.
func (lk *lookup) passes(r *run, i, qi int) bool {
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

// wanted returns up to which block all will be read.
func (lk *lookup) wanted(r *run, i, qi int) int {
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

// block looks through one block; the queries before qi are of hosts before it.
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
				return nil // the rest of the block is not asked for
			}
			end = qi
		}
		if q[qi].h != l.h {
			continue
		}
		if end == qi {
			end = lk.after(qi, func(k *query) bool { return k.h == l.h })
		}
		if len(lk.dropped) > 0 {
			if _, ok := lk.dropped[l.h]; ok {
				continue
			}
		}
		lk.mass[qi] += int64(l.n)
		shift := 64 - width(l.class)
		if q[end-1].p>>shift < l.first {
			continue
		}
		vals, err := b.read(&l, lk.out)
		if err != nil {
			return err
		}
		// A host of many lists has many queries, of which most lists see few.
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
