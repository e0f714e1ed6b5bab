package drum

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

var (
	// ErrMemory is a Store whose owner asks for more than fits in its budget
	// and does not say by EndSync that its own copy is durable.
	ErrMemory = errors.New("drum: out of memory budget")
	// ErrSyncing is a call that needs a manifest which waits for EndSync.
	ErrSyncing = errors.New("drum: a sync is on its way")
	errClosed  = errors.New("drum: closed")
)

// Config tunes a Store. The zero Config is a set of keys with 512 MiB.
type Config struct {
	// MemoryBytes bounds the RAM of everything. Zero means 512 MiB. Half of it
	// is for filters: with less than 1.5 bytes of that a key, they shrink and
	// more items have to be held.
	MemoryBytes int64
	// Values gives each key a number, which takes 8 more bytes on disk. What the
	// owner restores and rebuilds then are items.
	Values bool
	// Known says that emit wants what is known, too, not only what is not.
	Known bool
	// Journal says that the owner has a durable copy of what it was given, and
	// calls BeginSync and EndSync: nothing reaches the runs before it has
	// reached that copy. Without it, what a crash leaves is some moment's set.
	Journal bool
	// Progress, if not nil, is told how far Open is. One call at a time.
	Progress func(done, total int)

	tune tuning
}

// A tuning is what follows from a Config; tests make it small.
type tuning struct {
	bucketBits  uint
	memKeys     int // in the table that is frozen next
	memMost     int // likewise where there are so many keys on disk that a pass takes long
	firstKeys   int // in the first one
	slabKeys    int // held keys in RAM
	cacheSets   int
	blockBytes  int
	filterBytes int64
	heldMin     int // held items that start a pass, where runs are small
	heldMost    int // and where they are large: a bucket's are in RAM at once
	sheets      int // frames of held items on their way to the disk
	age         time.Duration
}

const (
	maxBucketBits = 12
	itemBytes     = 24 // of a key in a table, about
	queryBytes    = 56 // of a held item in a pass
)

func (c *Config) tuning() tuning {
	m := c.MemoryBytes
	if m == 0 {
		m = 512 << 20
	}
	t := c.tune
	set := func(p *int, v int64) {
		if *p == 0 {
			*p = int(v)
		}
	}
	if t.bucketBits == 0 {
		t.bucketBits = 6
	}
	set(&t.memKeys, min(maxTable/2, max(16, m/24/itemBytes)))
	set(&t.memMost, min(maxTable/2, max(int64(t.memKeys), m/12/itemBytes)))
	set(&t.firstKeys, min(maxTable/2, max(16, m/2/itemBytes)))
	set(&t.slabKeys, max(chunkKeys, m/32/16))
	set(&t.cacheSets, m/32/64)
	set(&t.blockBytes, 32<<10)
	set(&t.heldMin, 1<<16)
	set(&t.heldMost, max(int64(t.heldMin), m/32/queryBytes<<t.bucketBits))
	set(&t.sheets, min(128, max(2, m/64/frameBytes)))
	if t.filterBytes == 0 {
		t.filterBytes = m / 2
	}
	if t.age == 0 {
		t.age = 100 * time.Millisecond
	}
	return t
}

// An Item is a key that is asked for, and afterwards the answer.
type Item struct {
	// Key is two hashes: the Store counts on the bits of each being random, and
	// of Path, without values, keeps only the upper ones (see the package comment).
	Key weburl.Key
	// Aux goes to emit with the key and is not looked at.
	Aux []byte
	// Value is what Add and Update set; in an answer it is the key's.
	Value uint64
	// Known says that the key was there already. Only answers have it.
	Known bool
}

// A bucket is the keys of some hosts.
type bucket struct {
	runs   []*run // the oldest first
	filter *filter
	next   *filter // is being filled by a pass, and gets what comes meanwhile
	fresh  int64   // keys that came since the last freeze
}

func (b *bucket) keys() (n int64) {
	for _, r := range b.runs {
		n += r.keys
	}
	return n
}

// A state is how far a Store is with its pass.
type state uint8

const (
	idle      state = iota
	preparing       // filters are being allocated
	running
	emitting
	damaged // until Rebuild
)

// A Store answers which keys are known. One goroutine owns it.
type Store struct {
	cfg  Config
	tune tuning
	emit func([]Item) error
	vol  *volume
	pool *pool

	seed       uint64
	bucketBits uint
	shift      uint // of a place to its bucket
	buckets    []bucket
	onDisk     bool // some bucket has runs

	mem         *table
	drops       map[uint64]int // hosts, and the position in mem before which their keys are forgotten
	frozen      *table
	frozenDrops map[uint64]int
	cache       *cache

	gen      *generation // is being collected
	part     *part       // of gen
	frame    frameWriter
	scribe   *scribe
	framed   []byte // a frame that was read
	unpacked []byte // its items
	items    itemReader
	parts    []*part
	spent    []*generation // were emitted; their parts wait for EndSync

	state    state
	pass     *pass
	pub      *pass // whose runs are in use, but not yet in the manifest
	flushing bool
	last     time.Time     // the last pass's end
	cost     time.Duration // and how long it took
	timer    *time.Timer
	armed    time.Time
	ready    chan struct{}
	mark     []byte // of the manifest
	damages  []Damage
	lost     []Damage // of held items
	obsolete []*run   // files to remove

	num  atomic.Uint64 // of the last file
	work sync.WaitGroup
	out  []Item
	err  error
	sink uint64 // keeps the loads that fill the cache
	n    counts
}

type counts struct {
	checks, cacheHits, held, filterWrong, passes, flushes int64
}

func (s *Store) nextNum() uint64 { return s.num.Add(1) }

func (s *Store) fail(err error) error {
	if s.err == nil {
		s.err = err
	}
	return s.err
}

// Add asks for items and inserts what is not known, with its value. What was
// unknown reaches emit: most of it in this call, and what is held in a later
// Add, Emit or Flush, both in the order of arrival. Of several items with one
// new key exactly one is unknown: the first, unless a filter was renewed
// between them. An Aux may change when Add returns.
//
// A *Damage says that a pass cannot go on before Rebuild; the items are taken.
// Any other error is final.
func (s *Store) Add(items []Item) error { return s.ask(opAdd, items) }

// Check asks for items and changes nothing. An answer is that of a moment
// between the call and emit.
func (s *Store) Check(items []Item) error { return s.ask(opCheck, items) }

// Update sets the values of keys, known or not. It has no answers, and makes its
// keys known: an item of an earlier Add that is still held is so, too, then.
func (s *Store) Update(items []Item) error { return s.ask(opUpdate, items) }

// batch items are looked up together, so that the processor waits for the
// memory of many at a time.
const batch = 128

func (s *Store) ask(o op, items []Item) error {
	if s.err != nil {
		return s.err
	}
	all := len(items)
	for len(items) > 0 {
		n := min(len(items), batch)
		if err := s.askBatch(o, items[:n]); err != nil {
			return s.fail(err)
		}
		items = items[n:]
	}
	if err := s.flushOut(); err != nil {
		return err
	}
	return s.step(all)
}

func (s *Store) askBatch(o op, items []Item) error {
	var ks [batch]key
	var fh, ih [batch]uint64
	for i := range items {
		k := keyOf(items[i].Key, s.seed)
		f := filterHash(k.h, k.p)
		ks[i], fh[i], ih[i] = k, f, indexHash(f, k.p)
	}
	// Each loop is short, so that the processor has as many loads under way as
	// it can.
	n := len(items)
	sink := uint64(0)
	for i, f := range fh[:n] {
		if b := &s.buckets[ks[i].h>>s.shift]; b.filter != nil {
			sink += b.filter.touch(f)
		}
	}
	for _, h := range ih[:n] {
		sink += s.mem.touch(h)
	}
	if s.frozen != nil {
		for _, h := range ih[:n] {
			sink += s.frozen.touch(h)
		}
	}
	if s.cache != nil {
		for _, h := range ih[:n] {
			sink += s.cache.touch(h)
		}
	}
	s.sink = sink
	s.n.checks += int64(len(items))
	for i := range items {
		if err := s.askOne(o, &items[i], ks[i], fh[i], ih[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) askOne(o op, it *Item, k key, fh, ih uint64) error {
	b := &s.buckets[k.h>>s.shift]
	from, dropped := 0, false
	if len(s.drops) > 0 {
		from, dropped = s.drops[k.h]
	}
	onDisk := len(b.runs) > 0 && !dropped
	if onDisk {
		if b.filter != nil && !b.filter.has(fh) {
			return s.absent(o, it, k, b, fh, ih) // the table's keys are in the filter, too
		}
		if s.cache != nil && o != opUpdate && s.cache.has(k, ih) {
			s.n.cacheHits++
			return nil
		}
	}
	if pos := s.mem.find(k, ih, from); pos >= 0 {
		if o == opUpdate {
			s.mem.setValue(pos, it.Value)
		} else {
			s.known(it, s.mem.value(pos))
		}
		return nil
	}
	if s.frozen != nil && !dropped && o != opUpdate {
		from := 0
		if len(s.frozenDrops) > 0 {
			from = s.frozenDrops[k.h]
		}
		if pos := s.frozen.find(k, ih, from); pos >= 0 {
			s.known(it, s.frozen.value(pos))
			return nil
		}
	}
	if onDisk && o != opUpdate {
		if s.cache != nil && o == opAdd {
			s.cache.add(k, ih)
		}
		s.n.held++
		return s.hold(o, it, k)
	}
	return s.absent(o, it, k, b, fh, ih)
}

// known answers an item that is.
func (s *Store) known(it *Item, value uint64) {
	if s.cfg.Known {
		s.out = append(s.out, Item{it.Key, it.Aux, value, true})
	}
}

// absent answers an item that is nowhere.
func (s *Store) absent(o op, it *Item, k key, b *bucket, fh, ih uint64) error {
	if o != opCheck {
		if err := s.insert(k, b, fh, ih, it.Value); err != nil {
			return err
		}
	}
	if o != opUpdate {
		s.out = append(s.out, Item{it.Key, it.Aux, 0, false})
		if o == opAdd {
			s.out[len(s.out)-1].Value = it.Value
		}
	}
	return nil
}

func (s *Store) insert(k key, b *bucket, fh, ih, value uint64) error {
	if s.mem.n >= maxTable {
		return ErrMemory
	}
	s.mem.insert(k, ih, value)
	b.fresh++
	if b.filter != nil {
		b.filter.add(fh)
	}
	if b.next != nil {
		b.next.add(fh)
	}
	return nil
}

// flushOut hands out the answers that are there.
func (s *Store) flushOut() error {
	if len(s.out) == 0 {
		return nil
	}
	err := s.emit(s.out)
	clear(s.out) // the Aux belong to others
	s.out = s.out[:0]
	if err != nil {
		return s.fail(err)
	}
	return nil
}

// Restore inserts keys without asking whether they are known, and without an
// answer: what the owner's journal has since Mark, right after Open. A full
// table is brought to disk meanwhile. A *Damage asks for Rebuild; the keys are
// taken.
func (s *Store) Restore(keys []weburl.Key) error {
	return s.restore(len(keys), func(i int) (weburl.Key, uint64) { return keys[i], 0 })
}

// RestoreValues is Restore for a Store with values; of items with one key the
// last one holds.
func (s *Store) RestoreValues(items []Item) error {
	return s.restore(len(items), func(i int) (weburl.Key, uint64) { return items[i].Key, items[i].Value })
}

func (s *Store) restore(n int, nth func(int) (weburl.Key, uint64)) error {
	if s.err != nil {
		return s.err
	}
	for i := range n {
		wk, value := nth(i)
		k := keyOf(wk, s.seed)
		f := filterHash(k.h, k.p)
		h := indexHash(f, k.p)
		if pos := s.mem.find(k, h, s.drops[k.h]); pos >= 0 {
			s.mem.setValue(pos, value)
		} else if err := s.insert(k, &s.buckets[k.h>>s.shift], f, h, value); err != nil {
			return s.fail(err)
		}
	}
	// What Open found held waits: an answer may be among the keys to come.
	switch {
	case s.state == damaged:
		return s.pass.err
	case s.state == running: // once more, after Rebuild
		if err := s.endFlush(); err != nil {
			return err
		}
	}
	if s.state == idle && s.full() {
		return s.flushTable(s.mark)
	}
	return nil
}

// Emit hands out what passes have found, for a few milliseconds at most, and
// starts the next pass when it is time.
func (s *Store) Emit() error {
	if s.err != nil {
		return s.err
	}
	return s.step(0)
}

// Ready gets a value when Emit has something to do. One may be lost when
// another is waiting to be received.
func (s *Store) Ready() <-chan struct{} { return s.ready }

// Flush returns when all items of earlier calls have been answered.
func (s *Store) Flush() error {
	if s.err != nil {
		return s.err
	}
	s.flushing = true
	defer func() { s.flushing = false }()
	for {
		if err := s.step(1 << 30); err != nil {
			return err
		}
		if s.gen.n == 0 && (s.state == idle || s.state == preparing) {
			return nil
		}
		s.wait()
	}
}

// wait blocks until the pass has come further, where that is not up to the
// owner.
func (s *Store) wait() {
	switch s.state {
	case preparing:
		<-s.pass.ready
		if s.pass.flush && s.cfg.Journal { // cannot be without the owner: only answer
			s.pass.flush, s.pass.next = false, make([]*filter, len(s.buckets))
		}
	case running:
		<-s.pass.done
	}
}

// Len is how many keys are known. Keys that were restored though they were in
// the runs, or updated, count twice until their runs are merged, and dropped
// ones until the next flush.
func (s *Store) Len() int64 {
	n := int64(s.mem.n)
	if s.frozen != nil {
		n += int64(s.frozen.n)
	}
	for i := range s.buckets {
		n += s.buckets[i].keys()
	}
	return n
}

// Stats are a Store's figures.
type Stats struct {
	Keys        int64 // as Len
	Runs        int
	Held        int64 // items that wait for a pass
	MemoryBytes int64 // of tables, held keys, cache, filters and indexes
	FilterBytes int64 // of them those of filters and indexes
	DiskBytes   int64 // of runs
	HeldBytes   int64 // of files of held items

	// Since Open:
	Checks       int64 // items of Add, Check and Update
	CacheHits    int64
	EverHeld     int64
	FalsePerhaps int64 // held items that no run knew
	Passes       int64
	Flushes      int64 // of them those that wrote runs
	BytesRead    int64
	BytesWritten int64
	Pass         time.Duration // how long the last one took
}

// Stats takes as long as there are runs.
func (s *Store) Stats() Stats {
	st := Stats{
		Keys: s.Len(), Held: int64(s.gen.n),
		Checks: s.n.checks, CacheHits: s.n.cacheHits, EverHeld: s.n.held, FalsePerhaps: s.n.filterWrong,
		Passes: s.n.passes, Flushes: s.n.flushes, BytesRead: s.vol.read.Load(), BytesWritten: s.vol.written.Load(),
		Pass: s.cost,
	}
	for i := range s.buckets {
		b := &s.buckets[i]
		st.FilterBytes += b.filter.bytes() + b.next.bytes()
		for _, r := range b.runs {
			st.Runs++
			st.DiskBytes += r.size
			st.FilterBytes += r.bytes()
		}
	}
	if s.passGeneration() != nil {
		st.Held += int64(s.pass.gen.n)
	}
	for _, p := range s.parts {
		st.HeldBytes += p.size
	}
	st.MemoryBytes = st.FilterBytes + s.mem.bytes() + s.frozen.bytes() + s.cache.bytes() + s.gen.slab.bytes() + s.scribe.bytes()
	if s.state == running {
		st.MemoryBytes += s.pass.gen.slab.bytes()
	}
	return st
}

// Mark is the position that the owner gave with the keys that are all on disk:
// what came later it has to Restore after Open. Nil means everything.
func (s *Store) Mark() []byte { return s.mark }

// Damaged says which runs are damaged. A bucket is whole again after Rebuild.
func (s *Store) Damaged() []Damage { return slices.Clone(s.damages) } // Rebuild changes it

// Close stops a pass and closes the files. It does not write the keys that
// are not in runs: see Save.
func (s *Store) Close() error {
	if s.err == errClosed {
		return nil
	}
	err := s.err
	if err == nil {
		err = s.commit()
	}
	s.timer.Stop()
	for _, p := range []*pass{s.pass, s.pub} {
		if p != nil {
			p.stop.Store(true)
			p.confirm(nil)
		}
	}
	s.work.Wait()
	for _, p := range s.parts {
		if cerr := p.file.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("close drum: %w", cerr)
		}
	}
	for _, g := range []*generation{s.gen, s.passGeneration()} {
		if g != nil {
			for _, sp := range g.spills {
				_ = s.vol.fs.Remove(sp.name) // Open removes strays, too
			}
		}
	}
	s.err = errClosed
	return err
}

func (s *Store) passGeneration() *generation {
	if s.pass == nil {
		return nil
	}
	return s.pass.gen
}
