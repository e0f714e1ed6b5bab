package stream

// A Judge compares the items that a store emits with the Stream. It takes one bit of memory for
// each URL. One goroutine owns a Judge.
type Judge struct {
	s    *Stream
	told []uint64
	n    int64 // URLs emitted so far

	// Twice counts items whose URL had been emitted before. Foreign counts items that the
	// Stream never had, or whose key and link do not belong together.
	Twice, Foreign int64
}

// NewJudge returns a Judge for the first urls URLs of s.
func NewJudge(s *Stream, urls int64) *Judge {
	j := &Judge{s: s, told: make([]uint64, urls/64+1)}
	for i := range j.told {
		j.told[i] = 1 // touch the memory, so that it counts from the start
	}
	clear(j.told)
	return j
}

// Bytes returns the memory of the Judge.
func (j *Judge) Bytes() int64 { return int64(len(j.told)) * 8 }

// Emitted records an item that the store has emitted, and returns the number of its URL. ok is
// false if the answer is wrong.
func (j *Judge) Emitted(it *Item) (i uint64, ok bool) {
	i, ok = j.s.Number(it)
	if !ok || i>>6 >= uint64(len(j.told)) {
		j.Foreign++
		return i, false
	}
	if j.told[i>>6]>>(i&63)&1 != 0 {
		j.Twice++
		return i, false
	}
	j.told[i>>6] |= 1 << (i & 63)
	j.n++
	return i, true
}

// Told returns the number of URLs emitted so far.
func (j *Judge) Told() int64 { return j.n }

// Missing returns the number of URLs of the Stream that were not emitted. After a Flush these are
// the new URLs that the store took for known ones.
func (j *Judge) Missing() int64 { return j.s.Fresh() - j.n }
