package drum

// A query is a key that a pass looks up: the key of a held item, or a fresh key from the frozen table.
type query struct {
	key
	seq  uint32 // sequence number of the held item; for a fresh key, its position in the table
	flag uint32
}

const (
	queryFresh = 1 << iota // from the frozen table
	queryKnown             // found in a run
)

// sortQueries sorts q by key. The bits of h below bit `bits` must be random or, within one host, equal. It is a radix
// sort by eight bits from the highest digit, with insertion sort for small groups. tmp must be as long as q.
func sortQueries(q, tmp []query, bits int) { sortDigit(q, tmp, max(0, bits-8), false) }

func sortDigit(q, tmp []query, shift int, path bool) {
	for len(q) > 32 {
		var count [257]uint32
		if path {
			for i := range q {
				count[q[i].p>>shift&0xff+1]++
			}
		} else {
			for i := range q {
				count[q[i].h>>shift&0xff+1]++
			}
		}
		same := false
		for i := 1; i <= 256; i++ {
			same = same || int(count[i]) == len(q)
			count[i] += count[i-1]
		}
		next, nextPath := max(0, shift-8), path
		if shift == 0 {
			next, nextPath = 56, true
		}
		last := path && shift == 0
		if same {
			if last {
				return
			}
			shift, path = next, nextPath
			continue
		}
		at := count
		for i := range q {
			d := q[i].h
			if path {
				d = q[i].p
			}
			d = d >> shift & 0xff
			tmp[at[d]] = q[i]
			at[d]++
		}
		copy(q, tmp[:len(q)])
		if !last {
			if len(q) >= chunkKeys {
				yieldCPU()
			}
			for i := range 256 {
				if a, b := count[i], count[i+1]; b-a > 1 {
					sortDigit(q[a:b], tmp[a:b], next, nextPath)
				}
			}
		}
		return
	}
	for i := 1; i < len(q); i++ {
		x := q[i]
		j := i
		for ; j > 0 && x.less(q[j-1].key); j-- {
			q[j] = q[j-1]
		}
		q[j] = x
	}
}
