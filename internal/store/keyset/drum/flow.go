package drum

import (
	"errors"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/wake"
)

// step advances the pass as far as the owner can, whose call has just asked for n items.
func (s *Store) step(n int) error {
	for {
		if err := s.notePublished(); err != nil {
			return s.fail(err)
		}
		switch s.state {
		case idle:
			if !s.due() {
				s.arm()
				return s.pace()
			}
			s.prepare()
		case preparing:
			if !closed(s.pass.ready) {
				return s.pace()
			}
			if s.pass.flush && s.cfg.Journal {
				return s.pace() // BeginSync freezes the table
			}
			if err := s.freeze(); err != nil {
				return s.fail(err)
			}
		case running:
			if !closed(s.pass.done) {
				return s.pace()
			}
			if err := s.adopt(); err != nil {
				return err
			}
		case emitting:
			all, err := s.emitSome(n)
			if err != nil {
				return s.fail(err)
			}
			if !all {
				s.notify()
				return nil
			}
			s.retire(s.pass.gen)
			s.pass, s.state = nil, idle
		case damaged:
			return s.pass.err
		}
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (s *Store) notify() {
	wake.Up(s.ready)
}

// notePublished adopts the mark of a manifest that was written.
func (s *Store) notePublished() error {
	p := s.pub
	if p == nil || !closed(p.published) {
		return nil
	}
	s.pub = nil
	s.mark = p.mark
	s.obsolete = append(s.obsolete, p.obsolete...)
	return p.pubErr
}

// full reports whether the table should be written to disk and can be.
func (s *Store) full() bool {
	if s.pub != nil {
		return false
	}
	if s.onDisk {
		return s.mem.n >= s.tableKeys()
	}
	return s.mem.n >= s.tune.firstKeys
}

// diskKeys returns the number of keys in the runs.
func (s *Store) diskKeys() (n int64) {
	for i := range s.buckets {
		n += s.buckets[i].keys()
	}
	return n
}

// heldMax returns the number of held items that justifies a pass. The cost of reading the runs grows with the number of
// keys.
func (s *Store) heldMax() int64 {
	return min(int64(s.tune.heldMin)+s.diskKeys()/10, int64(s.tune.heldMost))
}

// tableKeys returns the number of table keys that justifies a flush.
func (s *Store) tableKeys() int {
	return max(s.tune.memKeys, min(int(s.diskKeys()/200), s.tune.memMost))
}

// due reports whether a pass should begin. This is so if the table is full, if enough items are held, or if items have
// been held so long that passes take at most 1/30 of the time. Passes more often gain little: nearly all held items
// turn out to be known.
func (s *Store) due() bool {
	if s.full() {
		return true
	}
	if s.gen.n == 0 {
		return false
	}
	return s.flushing || int64(s.gen.n) >= s.heldMax() || s.wakeIn() <= 0
}

// wakeIn returns how long held items may still wait.
func (s *Store) wakeIn() time.Duration {
	d := s.tune.age - time.Since(s.gen.since)
	return max(d, 30*s.cost-time.Since(s.last))
}

// arm sets the timer for the moment at which the held items have waited long enough.
func (s *Store) arm() {
	if s.gen.n == 0 || time.Until(s.armed) > 0 {
		return
	}
	d := max(s.wakeIn(), time.Millisecond)
	s.armed = time.Now().Add(d)
	s.timer.Reset(d)
}

// mostKeys returns the number of table keys above which the owner must wait. Together with the frozen table they fit in
// the memory budget.
func (s *Store) mostKeys() int { return min(2*s.tableKeys(), maxTable/2) }

// pace slows down an owner that is faster than the passes: by 5 ms, or until the pass is over if the table is far too
// large.
func (s *Store) pace() error {
	over := s.mem.n > s.mostKeys() || int64(s.gen.n) > 3*s.heldMax()
	var wait chan struct{}
	switch {
	case s.state == running:
		wait = s.pass.done
	case s.state == preparing && !closed(s.pass.ready):
		wait = s.pass.ready
	case s.state == idle && s.pub != nil && closed(s.pub.confirmed):
		wait = s.pub.published
	}
	if !over || wait == nil { // with wait nil, the pass waits for the owner's sync
		if s.mem.n > maxTable-batch {
			return s.fail(ErrMemory)
		}
		return nil
	}
	// With a journal, Add should not block the crawl. It does so only before the table would overflow.
	far := s.mem.n > s.mostKeys()*4/3 && (!s.cfg.Journal || s.mem.n > maxTable/4*3)
	t := time.NewTimer(5 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-wait:
			return nil
		case <-t.C:
			if !far {
				return nil
			}
			<-wait
			return nil
		}
	}
}

func (s *Store) newPass(flush bool) *pass {
	return &pass{
		s: s, flush: flush, tableKeys: s.tableKeys(), next: make([]*filter, len(s.buckets)),
		ready: make(chan struct{}), done: make(chan struct{}),
		confirmed: make(chan struct{}), published: make(chan struct{}),
	}
}

// prepare starts a pass. The filters and the next table take long to allocate, so another goroutine allocates them
// before the pass needs them.
func (s *Store) prepare() {
	p := s.newPass(s.full())
	s.pass, s.state = p, preparing
	if !p.flush {
		close(p.ready)
		return
	}
	plan := s.planFilters()
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		p.allocate(plan)
		s.notify()
	}()
}

// allocate allocates the filters and the table that a flushing pass needs.
func (p *pass) allocate(plan []wantFilter) {
	for _, want := range plan {
		yieldCPU()
		p.next[want.bucket] = newFilter(want.keys, want.bits)
	}
	p.empty = newTable(p.s.pool, p.s.vol.withValues, p.tableKeys)
	close(p.ready)
}

type wantFilter struct {
	bucket int
	keys   int64
	bits   float64
}

// bitsPerKey returns the number of filter bits per key if there are so many keys. With little memory it falls to 2,
// where a filter answers "perhaps" to nearly every key.
func (s *Store) bitsPerKey(keys int64) float64 {
	return min(filterBits, max(2, float64(s.tune.filterBytes)*8/float64(max(1, keys))/1.15))
}

// planFilters returns the buckets that get a new filter in a flushing pass, with the sizes.
func (s *Store) planFilters() []wantFilter {
	if s.tune.filterBytes <= 0 {
		return nil
	}
	total := int64(0)
	for i := range s.buckets {
		total += s.buckets[i].keys() + s.buckets[i].fresh
	}
	bitsPerKey := s.bitsPerKey(total)
	var plan []wantFilter
	at := int64(0)
	for i := range s.buckets {
		b := &s.buckets[i]
		keys := b.keys() + b.fresh
		if keys == 0 || b.filter != nil && keys <= b.filter.keys {
			continue
		}
		w := wantFilter{i, keys + keys/7, bitsPerKey}
		switch { // small filters grow in larger steps, so that they are replaced less often
		case keys < 1<<16:
			w.keys = 2 * keys
		case keys < 1<<19:
			w.keys = keys + keys/2
		}
		size := int64(float64(w.keys) * bitsPerKey / 8)
		if b.filter != nil && (size < b.filter.bytes()+b.filter.bytes()/20 || at > s.tune.filterBytes/8) {
			continue // the gain is too small, or the filter is left for another pass
		}
		at += size
		plan = append(plan, w)
	}
	return plan
}

// freeze closes the generation and, for a flush, the table. Then it starts the pass.
func (s *Store) freeze() error {
	if err := s.writeFrame(); err != nil {
		return err
	}
	p := s.pass
	p.gen = s.gen
	s.gen, s.part = &generation{slab: log{pool: s.pool}}, nil
	p.runs = make([][]*run, len(s.buckets))
	for i := range s.buckets {
		p.runs[i] = s.buckets[i].runs
	}
	if p.flush {
		s.frozen, p.frozen = s.mem, s.mem
		s.mem, p.empty = p.empty, nil
		for i := range s.buckets {
			s.buckets[i].next, s.buckets[i].fresh = p.next[i], 0
		}
		if !s.cfg.Journal {
			p.confirm(nil)
		}
	}
	s.state = running
	s.start(p)
	return nil
}

// start runs a pass in its own goroutine.
func (s *Store) start(p *pass) {
	obsolete := s.obsolete
	s.obsolete = nil
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		for _, r := range obsolete {
			_ = s.vol.fs.Remove(s.vol.path(runName(r.num))) // best effort; Open removes it too
		}
		p.run()
		close(p.done)
		s.notify()
	}()
}

// confirm tells the pass that the owner's copy of the frozen keys is durable up to mark.
func (p *pass) confirm(mark []byte) {
	if !closed(p.confirmed) {
		p.mark = mark
		close(p.confirmed)
	}
}

// adopt takes over the results of a pass.
func (s *Store) adopt() error {
	p := s.pass
	if p.err != nil {
		var d *Damage
		if errors.As(p.err, &d) && d.Bucket >= 0 {
			s.damages = append(s.damages, *d)
			s.discard(p)
			s.state = damaged
			return p.err
		}
		return s.fail(p.err)
	}
	s.n.passes++
	s.cost, s.last = p.took, time.Now()
	if p.flush {
		s.n.flushes++
		for i := range s.buckets {
			b := &s.buckets[i]
			b.runs = p.newRuns[i]
			if b.next != nil {
				b.filter, b.next = b.next, nil
			}
			s.onDisk = s.onDisk || len(b.runs) > 0
		}
		s.pub = p
		s.work.Add(1)
		go func() {
			defer s.work.Done()
			p.publish()
			s.notify()
		}()
		s.frozen.release()
		s.frozen, p.frozen = nil, nil
		if s.cache == nil && !s.cfg.Known {
			s.cache = newCache(s.tune.cacheSets)
		}
	}
	p.gen.slab.release()
	if err := s.collectAll(p.gen); err != nil {
		return s.fail(err)
	}
	s.state = emitting
	return nil
}

// discard marks the runs of a failed pass for removal.
func (s *Store) discard(p *pass) {
	for i, runs := range p.newRuns {
		for _, r := range runs {
			if !slices.Contains(s.buckets[i].runs, r) {
				s.obsolete = append(s.obsolete, r)
			}
		}
	}
	p.newRuns, p.obsolete = nil, nil
}

// emitSlice is how long one call may emit answers, if it has kept up with the intake.
const emitSlice = 2 * time.Millisecond

// emitSome emits answers of the generation that a pass has resolved. all reports whether no answers are left.
func (s *Store) emitSome(n int) (all bool, err error) {
	g := s.pass.gen
	start, done := time.Now(), 0
	for ; g.at < len(g.frames); g.at++ {
		if done >= 2*n && time.Since(start) > emitSlice {
			return false, nil
		}
		f := &g.frames[g.at]
		done += int(f.n)
		if !s.cfg.Known && !g.anyUnknown(f.first, f.n) {
			continue
		}
		items, err := s.readFrame(f)
		if errors.Is(err, errFrame) {
			s.noteLost(f, 0, err)
			continue
		} else if err != nil {
			return false, err
		}
		s.items.reset(items)
		for i := range f.n {
			var it Item
			o, err := s.items.next(&it, s.cfg.Known || g.isUnknown(f.first+i))
			if err != nil {
				s.noteLost(f, i, err)
				break
			}
			if err := s.resolve(o, &it, f.first+i); err != nil {
				return false, err
			}
		}
		if err := s.emitAnswers(); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (g *generation) isUnknown(seq uint32) bool { return g.unknown[seq/64]>>(seq%64)&1 == 1 }

func (g *generation) anyUnknown(first, n uint32) bool {
	for i := first; i < first+n; {
		if i%64 == 0 && g.unknown[i/64] == 0 {
			i += 64
			continue
		}
		if g.isUnknown(i) {
			return true
		}
		i++
	}
	return false
}

// resolve answers a held item. The table contains keys inserted since the pass began, including those of held items
// resolved before this one.
func (s *Store) resolve(o op, it *Item, seq uint32) error {
	g := s.pass.gen
	unknown := g.isUnknown(seq)
	if !unknown && !s.cfg.Known {
		return nil
	}
	k := keyOf(it.Key, s.seed)
	fh := filterHash(k.h, k.p)
	ih := indexHash(fh, k.p)
	if unknown || g.values != nil {
		if pos := s.mem.find(k, ih); pos >= 0 {
			s.answerKnown(it, s.mem.value(pos))
			return nil
		}
	}
	if !unknown {
		value := uint64(0)
		if g.values != nil {
			value = g.values[seq]
		}
		s.answerKnown(it, value)
		return nil
	}
	s.n.filterWrong++
	return s.answerUnknown(o, it, k, &s.buckets[k.h>>s.shift], fh, ih)
}
