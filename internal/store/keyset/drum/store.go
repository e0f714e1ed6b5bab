package drum

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

var (
	// ErrMemory means that the table is full and the owner has not called EndSync, so that it cannot be flushed.
	ErrMemory = errors.New("drum: the table is full and waits for a sync")
	// ErrSyncing means that the call needs a manifest that waits for EndSync.
	ErrSyncing = errors.New("drum: a sync is in progress; end it first")
	errClosed  = errors.New("drum: closed")
)

// Config tunes a Store. The zero Config gives a set of keys with 512 MiB.
type Config struct {
	// MemoryBytes limits the RAM of the Store. Zero means 512 MiB. Half of it is for filters. If that is less than 1.5
	// bytes per key, filters shrink and more items are held.
	MemoryBytes int64
	// Values gives each key a number. It takes 8 more bytes on disk. The owner then uses RestoreValues
	// instead of Restore, and cannot use Rebuild.
	Values bool
	// Known makes emit receive known items too, not only unknown ones.
	Known bool
	// Journal says that the owner keeps a durable copy of the emitted keys and calls BeginSync and EndSync. A key then
	// reaches the runs only after it has reached that copy. Without Journal, a crash leaves the set as it was at some
	// earlier moment.
	Journal bool

	tune tuning
}

// A tuning holds the sizes that follow from a Config. Tests make them small.
type tuning struct {
	bucketBits    uint
	memKeys       int // table keys at which the table is frozen
	memMost       int // upper limit of the same if there are so many keys on disk that a pass takes long
	firstKeys     int // keys of the first table
	slabKeys      int // held keys in RAM
	cacheSets     int
	blockBytes    int
	filterBytes   int64
	heldMin       int // held items that start a pass if the runs are small
	heldMost      int // held items that start a pass if the runs are large: those of a bucket are in RAM at once
	pendingFrames int // frames of held items that are not yet written
	age           time.Duration
}

const (
	maxBucketBits = 12
	itemBytes     = 24 // approximate size of a key in a table
	queryBytes    = 56 // size of a held item in a pass
)

func (c *Config) tuning() tuning {
	m := cmp.Or(c.MemoryBytes, 512<<20)
	t := c.tune
	set := func(p *int, v int64) {
		if *p == 0 {
			*p = int(v)
		}
	}
	t.bucketBits = cmp.Or(t.bucketBits, 6)
	set(&t.memKeys, min(maxTable/2, max(16, m/24/itemBytes)))
	set(&t.memMost, min(maxTable/2, max(int64(t.memKeys), m/12/itemBytes)))
	set(&t.firstKeys, min(maxTable/2, max(16, m/2/itemBytes)))
	set(&t.slabKeys, max(chunkKeys, m/32/16))
	set(&t.cacheSets, m/32/64)
	set(&t.blockBytes, 32<<10)
	set(&t.heldMin, 1<<16)
	set(&t.heldMost, max(int64(t.heldMin), m/32/queryBytes<<t.bucketBits))
	set(&t.pendingFrames, min(128, max(2, m/64/frameBytes)))
	t.filterBytes = cmp.Or(t.filterBytes, m/2)
	t.age = cmp.Or(t.age, 100*time.Millisecond)
	return t
}

// An Item is a key to look up, and later the answer.
type Item struct {
	// Key is two hashes. The Store relies on the bits of each being random. Without values, runs keep only the upper
	// bits of Path (see the package comment).
	Key link.Key
	// Aux is passed to emit together with the key. The Store does not interpret it.
	Aux []byte
	// Value is the value that Add or Update sets; in an answer, the value of the key.
	Value uint64
	// Known says that the key was there already. Only answers set it.
	Known bool
}

// A bucket holds the keys of some hosts: those whose places share their top bits.
type bucket struct {
	runs   []*run // the oldest first
	filter *filter
	next   *filter // the filter that a pass is filling; the owner adds new keys to it too
	fresh  int64   // keys inserted since the last freeze
}

func (b *bucket) keys() (n int64) {
	for _, r := range b.runs {
		n += r.keys
	}
	return n
}

// A state is the phase of a Store's pass.
type state uint8

const (
	idle      state = iota
	preparing       // filters are being allocated
	running
	emitting
	damaged // the pass waits for Rebuild
)

// A Store knows a set of keys. One goroutine owns it.
type Store struct {
	cfg  Config
	tune tuning
	emit func([]Item) error
	vol  *volume
	pool *pool

	seed       uint64
	bucketBits uint
	shift      uint // place >> shift is the bucket
	buckets    []bucket
	onDisk     bool // some bucket has runs

	mem    *table
	frozen *table
	cache  *cache

	gen        *generation // collects the held items for the next pass
	part       *part       // of gen
	frame      frameWriter
	heldWriter *heldWriter
	framed     []byte // the frame that was read last
	unpacked   []byte // its unpacked items
	items      itemReader
	parts      []*part
	retired    []*generation // emitted; their parts are removed after the next sync

	state    state
	pass     *pass
	pub      *pass // its runs are in use, but not yet in the manifest
	flushing bool
	last     time.Time     // end of the last pass
	cost     time.Duration // duration of the last pass
	timer    *time.Timer
	armed    time.Time
	ready    chan struct{}
	mark     []byte // mark of the manifest
	damages  []Damage
	lost     []Damage // of held items
	obsolete []*run   // files to remove

	num  atomic.Uint64 // the highest number of a file
	work sync.WaitGroup
	out  []Item
	err  error
	sink uint64 // keeps the compiler from removing the loads that fill the processor's cache
	n    counts
}

type counts struct {
	checks, cacheHits, held, filterWrong, passes, flushes int64
}

func (s *Store) nextNum() uint64 { return s.num.Add(1) }

func (s *Store) fail(err error) error {
	s.err = cmp.Or(s.err, err)
	return s.err
}

// Add looks up items and inserts the unknown ones with their values. Unknown items reach emit: most of them in this
// call, the held ones in a later Add, Emit or Flush. Within each of the two groups, the order is that of arrival. If
// several items have the same new key, exactly one of them is unknown: the first, unless a filter was replaced between
// them. The caller may change an Aux when Add returns.
//
// If the error is a *Damage, the items are added, but passes cannot go on before Rebuild. Any other error is final.
func (s *Store) Add(items []Item) error { return s.ask(opAdd, items) }

// Check looks up items and changes nothing. An answer is correct for some moment between the call and emit.
func (s *Store) Check(items []Item) error { return s.ask(opCheck, items) }

// Update sets the values of keys and inserts the unknown ones, without answers. If an earlier Add of such a key is
// still held, its answer is that the key is known.
func (s *Store) Update(items []Item) error { return s.ask(opUpdate, items) }

// MayHave reports whether the Store may have a key. It does not read from disk: false is certain, except for a key
// that is held; true is wrong for a small share of the keys, as the filter is.
func (s *Store) MayHave(wk link.Key) bool {
	k := keyOf(wk, s.seed)
	fh := filterHash(k.h, k.p)
	b := &s.buckets[k.h>>s.shift]
	if len(b.runs) > 0 {
		return b.filter == nil || b.filter.has(fh)
	}
	ih := indexHash(fh, k.p)
	return s.mem.find(k, ih) >= 0 || s.frozen != nil && s.frozen.find(k, ih) >= 0
}

// batch is the number of items that are looked up together. The processor then waits for many memory reads at a time.
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
	if err := s.emitAnswers(); err != nil {
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
	// Several short loops keep as many loads in flight as the processor can handle.
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
	onDisk := len(b.runs) > 0
	if onDisk {
		if b.filter != nil && !b.filter.has(fh) {
			return s.answerUnknown(o, it, k, b, fh, ih) // the filter contains the keys of the table too
		}
		if s.cache != nil && o != opUpdate && s.cache.has(k, ih) {
			s.n.cacheHits++
			return nil
		}
	}
	if pos := s.mem.find(k, ih); pos >= 0 {
		if o == opUpdate {
			s.mem.setValue(pos, it.Value)
		} else {
			s.answerKnown(it, s.mem.value(pos))
		}
		return nil
	}
	if s.frozen != nil && o != opUpdate {
		if pos := s.frozen.find(k, ih); pos >= 0 {
			s.answerKnown(it, s.frozen.value(pos))
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
	return s.answerUnknown(o, it, k, b, fh, ih)
}

// answerKnown answers that the item is known.
func (s *Store) answerKnown(it *Item, value uint64) {
	if s.cfg.Known {
		s.out = append(s.out, Item{it.Key, it.Aux, value, true})
	}
}

// answerUnknown answers that the item is unknown and, unless o is opCheck, inserts it.
func (s *Store) answerUnknown(o op, it *Item, k key, b *bucket, fh, ih uint64) error {
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

// emitAnswers passes the collected answers to emit.
func (s *Store) emitAnswers() error {
	if len(s.out) == 0 {
		return nil
	}
	err := s.emit(s.out)
	clear(s.out) // do not keep the Aux alive
	s.out = s.out[:0]
	if err != nil {
		return s.fail(err)
	}
	return nil
}

// Restore inserts keys without looking them up and without answers: those that the owner's journal has after Mark. Call
// it after Open. When the table is full, Restore writes it to disk. If the error is a *Damage, the keys are added, and
// the caller must call Rebuild.
func (s *Store) Restore(keys []link.Key) error {
	return s.restore(len(keys), func(i int) (link.Key, uint64) { return keys[i], 0 })
}

// RestoreValues is Restore for a Store with values. If several items have the same key, the last value is valid.
func (s *Store) RestoreValues(items []Item) error {
	return s.restore(len(items), func(i int) (link.Key, uint64) { return items[i].Key, items[i].Value })
}

func (s *Store) restore(n int, nth func(int) (link.Key, uint64)) error {
	if s.err != nil {
		return s.err
	}
	for i := range n {
		wk, value := nth(i)
		k := keyOf(wk, s.seed)
		f := filterHash(k.h, k.p)
		h := indexHash(f, k.p)
		if pos := s.mem.find(k, h); pos >= 0 {
			s.mem.setValue(pos, value)
		} else if err := s.insert(k, &s.buckets[k.h>>s.shift], f, h, value); err != nil {
			return s.fail(err)
		}
	}
	// Items that Open found held stay held here: their keys may be among those that the owner restores later.
	switch {
	case s.state == damaged:
		return s.pass.err
	case s.state == running: // the flush runs again, after Rebuild
		if err := s.endFlush(); err != nil {
			return err
		}
	}
	if s.state == idle && s.full() {
		return s.flushTable(s.mark)
	}
	return nil
}

// Emit passes answers of finished passes to emit, for a few milliseconds at most, and starts the next pass if it is
// due.
func (s *Store) Emit() error {
	if s.err != nil {
		return s.err
	}
	return s.step(0)
}

// Ready returns a channel that receives a value when a call of Emit would do something. Values are not queued: a second
// one is dropped while the first waits to be received.
func (s *Store) Ready() <-chan struct{} { return s.ready }

// Flush answers all items of earlier calls. It blocks for a pass.
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

// wait blocks until the pass has advanced, if the pass does not wait for the owner.
func (s *Store) wait() {
	switch s.state {
	case preparing:
		<-s.pass.ready
		if s.pass.flush && s.cfg.Journal { // a flush would need the owner's sync: only answer
			s.pass.flush, s.pass.next = false, make([]*filter, len(s.buckets))
		}
	case running:
		<-s.pass.done
	}
}

// Len returns the number of keys. It counts a key twice that was restored although a run contains it, or that was
// updated, until the runs are merged.
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

// Stats describes a Store.
type Stats struct {
	Keys        int64 // as Len
	Runs        int
	Held        int64 // items that wait for a pass
	MemoryBytes int64 // tables, held keys, cache, filters and indexes
	FilterBytes int64 // the share of filters and indexes in MemoryBytes
	DiskBytes   int64 // size of the runs
	HeldBytes   int64 // size of the files of held items
	// Since Open:
	Checks       int64 // items of Add, Check and Update
	CacheHits    int64
	EverHeld     int64
	FalsePerhaps int64 // held items that no run contained
	Passes       int64
	Flushes      int64 // passes that wrote runs
	BytesRead    int64
	BytesWritten int64
	Pass         time.Duration // duration of the last pass
}

// Stats returns the current figures. Its cost is proportional to the number of runs.
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
	st.MemoryBytes = st.FilterBytes + s.mem.bytes() + s.frozen.bytes() + s.cache.bytes() +
		s.gen.slab.bytes() + s.heldWriter.bytes()
	if s.state == running {
		st.MemoryBytes += s.pass.gen.slab.bytes()
	}
	return st
}

// Mark returns the owner's position up to which all keys are on disk. After Open the owner must Restore the keys after
// it. Nil means that no position was stored.
func (s *Store) Mark() []byte { return s.mark }

// Damaged returns the damaged places of runs. Rebuild of the bucket mends them.
func (s *Store) Damaged() []Damage { return slices.Clone(s.damages) } // a copy, because Rebuild changes it

// Close stops a running pass, writes the held items and closes the files. It does not write the keys that are in no run
// yet.
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
				_ = s.vol.fs.Remove(sp.name) // best effort; Open removes it too
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
