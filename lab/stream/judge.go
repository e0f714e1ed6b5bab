package stream

// A Judge holds what a store emits against the Stream. It takes a bit for each
// URL.
type Judge struct {
	s    *Stream
	told []uint64
	n    int64 // URLs told of

	// Twice are items that were emitted though their URL had been before, and
	// Foreign those that the Stream never gave, or whose key and link do not
	// belong together.
	Twice, Foreign int64
}

// NewJudge makes a Judge for at most urls URLs of s.
func NewJudge(s *Stream, urls int64) *Judge {
	j := &Judge{s: s, told: make([]uint64, urls/64+1)}
	for i := range j.told {
		j.told[i] = 1 // so that its memory is there from the beginning
	}
	clear(j.told)
	return j
}

// Bytes is the memory that it takes.
func (j *Judge) Bytes() int64 { return int64(len(j.told)) * 8 }

// Emitted takes what a store says to be new, and gives the number of its URL.
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

// Told is how many URLs were emitted.
func (j *Judge) Told() int64 { return j.n }

// Missing is how many URLs the Stream has given that were not emitted: after a
// Flush those that were falsely taken as known.
func (j *Judge) Missing() int64 { return j.s.Fresh() - j.n }
