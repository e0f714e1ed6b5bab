package drum

import "sync"

const (
	chunkBits = 13
	chunkKeys = 1 << chunkBits // 128 KiB
	subs      = 256            // sub-indexes of a table; each is small, so that growing one is quick
	posBits   = 24
	maxTable  = 1<<posBits - 2 // maximum number of keys of a table
)

type (
	chunk  [chunkKeys]key
	values [chunkKeys]uint64
)

// A pool keeps chunks and the slots of a table for reuse, so that a full Store produces no garbage.
type pool struct {
	mu    sync.Mutex // guards free and slots
	free  []*chunk
	slots []uint32
	keep  int // maximum number of free chunks
}

func (p *pool) take() *chunk {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c
	}
	return new(chunk)
}

func (p *pool) put(cs []*chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, cs[:min(len(cs), max(0, p.keep-len(p.free)))]...)
}

// takeSlots returns n empty slots.
func (p *pool) takeSlots(n int) []uint32 {
	p.mu.Lock()
	s := p.slots
	p.slots = nil
	p.mu.Unlock()
	if len(s) != n {
		return make([]uint32, n)
	}
	clear(s)
	return s
}

func (p *pool) putSlots(s []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots = s
}

// A log holds keys in the order of their insertion.
type log struct {
	pool   *pool
	chunks []*chunk
	n      int
}

func (l *log) at(i int) key { return l.chunks[i>>chunkBits][i&(chunkKeys-1)] }

func (l *log) append(k key) {
	if l.n&(chunkKeys-1) == 0 {
		l.chunks = append(l.chunks, l.pool.take())
	}
	l.chunks[l.n>>chunkBits][l.n&(chunkKeys-1)] = k
	l.n++
}

func (l *log) bytes() int64 { return int64(len(l.chunks)) * chunkKeys * 16 }

func (l *log) release() {
	l.pool.put(l.chunks)
	l.chunks, l.n = nil, 0
}

// A grouping holds the positions of a log, sorted by bucket. Those of bucket b are at[from[b]:from[b+1]].
type grouping struct {
	at   []uint32
	from []uint32
}

func (l *log) group(buckets int, shift uint) grouping {
	g := grouping{make([]uint32, l.n), make([]uint32, buckets+1)}
	next := make([]uint32, buckets)
	for i := range l.n {
		if i&(chunkKeys-1) == 0 {
			yieldCPU()
		}
		next[l.at(i).h>>shift]++
	}
	sum := uint32(0)
	for b, n := range next {
		g.from[b], next[b] = sum, sum
		sum += n
	}
	g.from[buckets] = sum
	for i := range l.n {
		if i&(chunkKeys-1) == 0 {
			yieldCPU()
		}
		b := l.at(i).h >> shift
		g.at[next[b]] = uint32(i)
		next[b]++
	}
	return g
}

func (g *grouping) of(b int) []uint32 { return g.at[g.from[b]:g.from[b+1]] }

// A table is an exact set of keys with their values. It consists of a log and a hash index of positions with open
// addressing. Each slot also has eight bits of the hash, so that the lookup of an absent key costs one cache miss.
type table struct {
	log
	vals  []*values // nil in a Store without values
	sub   [subs]subIndex
	slots []uint32 // the initial slots of all sub-indexes, in one piece
	size  int64    // bytes of all slots
	hosts hostIndex
}

type subIndex struct {
	slots []uint32 // tag<<posBits | position+1
	n     int
}

// newTable returns a table that need not grow before it has so many keys.
func newTable(p *pool, withValues bool, keys int) *table {
	t := &table{log: log{pool: p}}
	if withValues {
		t.vals = []*values{}
	}
	if keys == 0 {
		return t
	}
	each := 16
	for 3*each < 4*(keys/subs+keys/subs/8+1) {
		each *= 2
	}
	t.slots = p.takeSlots(subs * each)
	t.size = int64(len(t.slots)) * 4
	for i := range t.sub {
		t.sub[i].slots = t.slots[i*each : (i+1)*each : (i+1)*each]
	}
	return t
}

// release returns the table's memory to the pool.
func (t *table) release() {
	t.log.release()
	if t.slots != nil {
		t.pool.putSlots(t.slots)
	}
	t.slots, t.sub, t.hosts = nil, [subs]subIndex{}, hostIndex{}
}

func tag(h uint64) uint32 { return uint32(h>>48&0xff) << posBits }

// touch loads the slot of h into the processor's cache.
func (t *table) touch(h uint64) uint64 {
	if s := t.sub[h>>56].slots; len(s) > 0 {
		return uint64(s[h&uint64(len(s)-1)])
	}
	return 0
}

// find returns the position of k, or -1.
func (t *table) find(k key, h uint64) int {
	s := t.sub[h>>56].slots
	if len(s) == 0 {
		return -1
	}
	mask := uint64(len(s) - 1)
	tg := tag(h)
	for i := h & mask; ; i = (i + 1) & mask {
		e := s[i]
		if e == 0 {
			return -1
		}
		if e&^(1<<posBits-1) == tg {
			if pos := int(e&(1<<posBits-1)) - 1; t.at(pos) == k {
				return pos
			}
		}
	}
}

// insert adds k, which must not be in the table.
func (t *table) insert(k key, h, value uint64) {
	s := &t.sub[h>>56]
	if 4*(s.n+1) > 3*len(s.slots) {
		t.grow(s)
	}
	pos := t.n
	t.append(k)
	if t.vals != nil {
		if pos&(chunkKeys-1) == 0 {
			t.vals = append(t.vals, new(values))
		}
		t.setValue(pos, value)
	}
	s.put(h, uint32(pos))
}

func (s *subIndex) put(h uint64, pos uint32) {
	mask := uint64(len(s.slots) - 1)
	i := h & mask
	for s.slots[i] != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = tag(h) | (pos + 1)
	s.n++
}

func (t *table) grow(s *subIndex) {
	old := s.slots
	s.slots, s.n = make([]uint32, max(16, 2*len(old))), 0
	t.size += int64(len(s.slots)-len(old)) * 4
	for _, e := range old {
		if e != 0 {
			pos := e&(1<<posBits-1) - 1
			k := t.at(int(pos))
			s.put(indexHash(filterHash(k.h, k.p), k.p), pos)
		}
	}
}

func (t *table) value(pos int) uint64 {
	if t.vals == nil {
		return 0
	}
	return t.vals[pos>>chunkBits][pos&(chunkKeys-1)]
}

func (t *table) setValue(pos int, v uint64) {
	if t.vals != nil {
		t.vals[pos>>chunkBits][pos&(chunkKeys-1)] = v
	}
}

func (t *table) bytes() int64 {
	if t == nil {
		return 0
	}
	return t.log.bytes() + int64(len(t.vals))*chunkKeys*8 + t.size + t.hosts.bytes()
}
