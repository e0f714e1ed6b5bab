package drum

import (
	"errors"
	"maps"
	"time"
)

// step brings the pass further as far as that is up to the owner, who has just
// asked for n items.
func (s *Store) step(n int) error {
	for {
		if err := s.published(); err != nil {
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
				return s.pace() // BeginSync goes on
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
			s.spend(s.pass.gen)
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
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// published takes note of a manifest that was written.
func (s *Store) published() error {
	p := s.pub
	if p == nil || !closed(p.published) {
		return nil
	}
	s.pub = nil
	s.mark = p.mark
	s.obsolete = append(s.obsolete, p.obsolete...)
	return p.pubErr
}

// full says that the table is to be brought to disk, and that it can be.
func (s *Store) full() bool {
	if s.pub != nil {
		return false
	}
	if 4*len(s.drops) >= max(s.tune.memKeys, 4) {
		return true
	}
	if s.onDisk {
		return s.mem.n >= s.tableKeys()
	}
	return s.mem.n >= s.tune.firstKeys
}

// diskKeys is how many keys the runs have.
func (s *Store) diskKeys() (n int64) {
	for i := range s.buckets {
		n += s.buckets[i].keys()
	}
	return n
}

// heldMax is how many held items are worth a pass at once: reading the runs
// costs as much as there are keys.
func (s *Store) heldMax() int64 {
	return min(int64(s.tune.heldMin)+s.diskKeys()/10, int64(s.tune.heldMost))
}

// tableKeys is likewise with how many keys the table is brought to disk.
func (s *Store) tableKeys() int {
	return max(s.tune.memKeys, min(int(s.diskKeys()/200), s.tune.memMost))
}

// due says that a pass should begin: when the table is full, when enough items
// are held, or when they have been so for long enough that passes take at most
// a thirtieth of the time: of the held items nearly all turn out to be known.
func (s *Store) due() bool {
	if s.full() {
		return true
	}
	if s.gen.n == 0 {
		return false
	}
	return s.flushing || int64(s.gen.n) >= s.heldMax() || s.wakeIn() <= 0
}

// wakeIn is how long held items may wait still.
func (s *Store) wakeIn() time.Duration {
	d := s.tune.age - time.Since(s.gen.since)
	return max(d, 30*s.cost-time.Since(s.last))
}

// arm has Ready told when the held items have waited long enough.
func (s *Store) arm() {
	if s.gen.n == 0 || time.Until(s.armed) > 0 {
		return
	}
	d := max(s.wakeIn(), time.Millisecond)
	s.armed = time.Now().Add(d)
	s.timer.Reset(d)
}

// mostKeys is how many keys the table may have before the owner has to wait:
// as many again may be frozen, and all fit in the budget.
func (s *Store) mostKeys() int { return min(2*s.tableKeys(), maxTable/2) }

// pace makes an owner that is faster than the passes wait a little, and one
// that is much faster until the pass is over.
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
	if !over || wait == nil { // or it is up to the owner, who is to sync
		if s.mem.n > maxTable-batch {
			return s.fail(ErrMemory)
		}
		return nil
	}
	// With a journal Add is not to block the crawl, but better so than to fail.
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

// prepare begins a pass. Filters and the next table take a while to allocate,
// so that happens beside the intake, before the pass needs them.
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

// allocate makes what a pass that brings the table to disk needs.
func (p *pass) allocate(plan []wantFilter) {
	for _, want := range plan {
		makeWay()
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

// perKey is how many bits of a filter each of so many keys gets. With too
// little memory they are fewer, down to where a filter says perhaps to nearly
// everything.
func (s *Store) perKey(keys int64) float64 {
	return min(filterBits, max(2, float64(s.tune.filterBytes)*8/float64(max(1, keys))/1.15))
}

// planFilters says which buckets get another filter in a pass that brings the
// table to disk.
func (s *Store) planFilters() []wantFilter {
	if s.tune.filterBytes <= 0 {
		return nil
	}
	total := int64(0)
	for i := range s.buckets {
		total += s.buckets[i].keys() + s.buckets[i].fresh
	}
	perKey := s.perKey(total)
	var plan []wantFilter
	at := int64(0)
	for i := range s.buckets {
		b := &s.buckets[i]
		keys := b.keys() + b.fresh
		if keys == 0 || b.filter != nil && keys <= b.filter.keys {
			continue
		}
		w := wantFilter{i, keys + keys/7, perKey}
		switch { // small ones grow in larger steps, so that they are not filled so often
		case keys < 1<<16:
			w.keys = 2 * keys
		case keys < 1<<19:
			w.keys = keys + keys/2
		}
		size := int64(float64(w.keys) * perKey / 8)
		if b.filter != nil && (size < b.filter.bytes()+b.filter.bytes()/20 || at > s.tune.filterBytes/8) {
			continue // it would not be better, or is for another pass
		}
		at += size
		plan = append(plan, w)
	}
	return plan
}

// freeze closes the generation, and for a flush the table, and lets the pass
// run.
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
	if !p.flush {
		p.dropped = maps.Clone(s.drops) // a crash may have left their items held
	} else {
		s.frozen, s.frozenDrops = s.mem, s.drops
		p.frozen, p.dropped = s.frozen, s.frozenDrops
		s.mem, s.drops, p.empty = p.empty, map[uint64]int{}, nil
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

// start lets a pass run beside the intake.
func (s *Store) start(p *pass) {
	obsolete := s.obsolete
	s.obsolete = nil
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		for _, r := range obsolete {
			_ = s.vol.fs.Remove(s.vol.path(runName(r.num))) // Open removes strays, too
		}
		p.run()
		close(p.done)
		s.notify()
	}()
}

// confirm says that the owner has its copy of what is frozen, up to mark.
func (p *pass) confirm(mark []byte) {
	if !closed(p.confirmed) {
		p.mark = mark
		close(p.confirmed)
	}
}

// adopt takes over what a pass has made.
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
		s.frozen, s.frozenDrops, p.frozen = nil, nil, nil
		if s.cache == nil && !s.cfg.Known {
			s.cache = newCache(s.tune.cacheSets)
		}
	}
	p.gen.slab.release()
	if err := s.takeAll(p.gen); err != nil {
		return s.fail(err)
	}
	s.state = emitting
	return nil
}

// discard removes the runs that a failed pass has written.
func (s *Store) discard(p *pass) {
	for i, runs := range p.newRuns {
		for _, r := range runs {
			if !contains(s.buckets[i].runs, r) {
				s.obsolete = append(s.obsolete, r)
			}
		}
	}
	p.newRuns, p.obsolete = nil, nil
}

func contains(runs []*run, r *run) bool {
	for _, o := range runs {
		if o == r {
			return true
		}
	}
	return false
}

// slice is how long handing out may take at a time, once it has kept up with
// the intake.
const slice = 2 * time.Millisecond

// emitSome hands out answers of the generation that a pass has resolved, and
// says whether these were all.
func (s *Store) emitSome(n int) (all bool, err error) {
	g := s.pass.gen
	start, done := time.Now(), 0
	for ; g.at < len(g.frames); g.at++ {
		if done >= 2*n && time.Since(start) > slice {
			return false, nil
		}
		f := &g.frames[g.at]
		done += int(f.n)
		if !s.cfg.Known && !g.anyUnknown(f.first, f.n) {
			continue
		}
		items, err := s.readFrame(f)
		if errors.Is(err, errFrame) {
			s.lose(f, 0, err)
			continue
		} else if err != nil {
			return false, err
		}
		s.items.reset(items)
		for i := range f.n {
			var it Item
			o, err := s.items.next(&it, s.cfg.Known || g.isUnknown(f.first+i))
			if err != nil {
				s.lose(f, i, err)
				break
			}
			if err := s.resolve(o, &it, f.first+i); err != nil {
				return false, err
			}
		}
		if err := s.flushOut(); err != nil {
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

// resolve answers a held item. What was inserted since the pass began is in
// the table, also by the items before it.
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
		if pos := s.mem.find(k, ih, s.drops[k.h]); pos >= 0 {
			s.known(it, s.mem.value(pos))
			return nil
		}
	}
	if !unknown {
		value := uint64(0)
		if g.values != nil {
			value = g.values[seq]
		}
		s.known(it, value)
		return nil
	}
	s.n.filterWrong++
	return s.absent(o, it, k, &s.buckets[k.h>>s.shift], fh, ih)
}
