package drum

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// errStopped means that Close stopped the pass.
var errStopped = errors.New("drum: stopped")

// mergeRatio decides which runs are merged into a new one: starting with the newest, those that have at most this many
// times the keys collected for the new run so far. Runs thus grow geometrically, and a key is rewritten O(log n) times.
const mergeRatio = 2

// A pass resolves the held items and, if the table is full, writes its keys to disk. It works on data that does not
// change meanwhile: the frozen table, the closed generation and the immutable runs.
type pass struct {
	s     *Store
	flush bool

	// Set before the pass runs.
	gen       *generation
	frozen    *table
	runs      [][]*run  // of each bucket, the oldest first
	next      []*filter // filters to fill; nil: the bucket keeps its filter
	empty     *table    // the table that replaces frozen
	tableKeys int       // keys for which empty need not grow

	ready chan struct{} // closed when next and empty are allocated
	done  chan struct{}
	stop  atomic.Bool

	confirmed chan struct{} // closed when the owner's copy of the frozen keys is durable
	mark      []byte        // set before confirmed is closed
	published chan struct{} // closed when the manifest names the new runs
	pubErr    error         // set before published is closed

	// Results of the pass.
	err      error
	newRuns  [][]*run
	obsolete []*run
	took     time.Duration
}

// yieldCPU lets other goroutines run, above all the owner. Background goroutines call it every few hundred
// microseconds. If they occupied all processors, an owner that returns from a system call would wait for the rest of a
// time slice, which is 10 ms.
func yieldCPU() { runtime.Gosched() }

// A worker processes one bucket at a time and keeps the buffers for it.
type worker struct {
	p        *pass
	q, tmp   []query
	hostKeys []int64
	values   []uint64
	out      []uint64
	fresh    []query
	classes  []uint8
	filter   filter // scratch memory for the filter of one bucket
	obsolete []*run
}

func (p *pass) run() {
	start := time.Now()
	p.err = p.work()
	p.took = time.Since(start)
}

func (p *pass) work() error {
	s := p.s
	for _, sp := range p.gen.spills {
		<-sp.done
		if sp.err != nil {
			return sp.err
		}
	}
	slab := p.gen.slab.group(len(s.buckets), s.shift)
	var fresh grouping
	if p.flush {
		fresh = p.frozen.group(len(s.buckets), s.shift)
	}
	p.gen.unknown = make([]uint64, (p.gen.n+63)/64)
	if s.vol.withValues {
		p.gen.values = make([]uint64, p.gen.n)
	}
	p.newRuns = make([][]*run, len(s.buckets))
	p.obsolete = nil
	var at atomic.Int64
	var g errgroup.Group
	workers := make([]*worker, max(1, min(runtime.GOMAXPROCS(0)-1, len(s.buckets))))
	for i := range workers {
		w := &worker{p: p, out: make([]uint64, listKeys)}
		workers[i] = w
		g.Go(func() error {
			for {
				b := int(at.Add(1)) - 1
				if b >= len(s.buckets) {
					return nil
				}
				if err := w.bucket(b, &slab, &fresh); err != nil {
					p.stop.Store(true) // stops the other workers
					return err
				}
			}
		})
	}
	err := g.Wait()
	for _, w := range workers {
		p.obsolete = append(p.obsolete, w.obsolete...)
	}
	return err
}

// publish writes the manifest once the owner's copy of the keys is durable.
func (p *pass) publish() {
	defer close(p.published)
	<-p.confirmed // Close confirms too, after it has set stop
	if p.stop.Load() {
		p.pubErr = errStopped
		return
	}
	p.pubErr = p.s.writeManifest(p.newRuns, p.mark)
}

// bucket processes bucket b.
func (w *worker) bucket(b int, slab, fresh *grouping) error {
	p := w.p
	s := p.s
	runs := p.runs[b]
	p.newRuns[b] = runs
	if err := w.gather(b, slab, fresh); err != nil {
		return err
	}
	if len(w.q) == 0 && p.next[b] == nil {
		return nil
	}
	sortQueries(w.q, w.tmp, int(s.shift))
	lk := lookup{q: w.q, hostKeys: w.hostKeys, stop: &p.stop, out: w.out}
	if s.vol.withValues {
		lk.values = w.values
	}
	for i := range runs {
		if len(lk.q) == 0 {
			break
		}
		r := runs[i] // the largest run first: it contains most keys
		if s.vol.withValues {
			r = runs[len(runs)-1-i] // the newest run first: its value is valid
		}
		if err := s.vol.lookup(&lk, r); err != nil {
			return err
		}
		if i < len(runs)-1 && !s.vol.withValues {
			lk.removeKnown()
		}
	}
	w.q = lk.q
	w.answer()
	if !p.flush {
		return nil
	}
	from := len(runs)
	if n := int64(len(w.fresh)); n > 0 {
		for ; from > 0 && runs[from-1].keys <= mergeRatio*n; from-- {
			n += runs[from-1].keys
		}
	}
	if from < len(runs) || len(w.fresh) > 0 {
		r, err := w.merge(b, runs[from:])
		if err != nil {
			return err
		}
		w.obsolete = append(w.obsolete, runs[from:]...)
		p.newRuns[b] = append([]*run{}, runs[:from]...)
		if r != nil {
			p.newRuns[b] = append(p.newRuns[b], r)
		}
	}
	if f := p.next[b]; f != nil {
		w.filter.clearLike(f)
		for _, r := range p.newRuns[b] {
			if err := s.vol.fill(&w.filter, r, &p.stop); err != nil {
				return err
			}
		}
		f.union(&w.filter)
	}
	return nil
}

// lookup searches lk's queries in r.
func (v *volume) lookup(lk *lookup, r *run) error {
	rr, err := v.reader(r)
	if err != nil {
		return err
	}
	defer rr.close()
	return lk.run(rr)
}

// fill adds the keys of r to f, which no other goroutine may use.
func (v *volume) fill(f *filter, r *run, stop *atomic.Bool) error {
	it, err := v.iterate(r)
	if err != nil {
		return err
	}
	defer it.rr.close()
	for {
		if err := it.next(); err != nil {
			return err
		}
		if it.l.n == 0 {
			return nil
		}
		if stop.Load() {
			return errStopped
		}
		shift := 64 - width(it.l.class)
		for _, v := range it.vals {
			f.set(filterHash(it.l.h, v<<shift))
		}
	}
}

// gather collects the queries of bucket b: its held keys and, for a flush, its frozen keys.
func (w *worker) gather(b int, slab, fresh *grouping) error {
	p := w.p
	w.q = w.q[:0]
	for _, sp := range p.gen.spills {
		var err error
		if w.q, err = sp.read(p.s.vol, b, w.q); err != nil {
			return err
		}
	}
	for _, i := range slab.of(b) {
		w.q = append(w.q, query{p.gen.slab.at(int(i)), p.gen.base + i, 0})
	}
	if p.flush {
		for _, i := range fresh.of(b) {
			w.q = append(w.q, query{p.frozen.at(int(i)), i, queryFresh})
		}
	}
	n := len(w.q)
	if cap(w.tmp) < n {
		w.tmp = make([]query, n+n/8)
		w.hostKeys = make([]int64, n+n/8)
	}
	w.tmp, w.hostKeys = w.tmp[:n], w.hostKeys[:n]
	clear(w.hostKeys)
	if p.s.vol.withValues {
		w.values = append(w.values[:0], make([]uint64, n)...)
	}
	return nil
}

// answer records which held items are unknown, and which fresh keys must be written in which class.
func (w *worker) answer() {
	p := w.p
	w.fresh, w.classes = w.fresh[:0], w.classes[:0]
	q := w.q
	for i := 0; i < len(q); {
		j, fresh := i, int64(0)
		for ; j < len(q) && q[j].h == q[i].h; j++ {
			if q[j].flag&queryFresh != 0 {
				fresh++
			}
		}
		class := classOf(w.hostKeys[i] + fresh)
		if p.s.vol.withValues {
			class = maxClass // with another class, the old value would stay beside the new one
		}
		for i < j {
			e, known, table := i, false, -1
			var value uint64
			for ; e < j && q[e].p == q[i].p; e++ {
				if q[e].flag&queryFresh != 0 {
					table = int(q[e].seq)
				}
				if q[e].flag&queryKnown != 0 {
					known = true
					if p.s.vol.withValues {
						value = w.values[e]
					}
				}
			}
			if table >= 0 && (!known || p.s.vol.withValues) {
				w.fresh = append(w.fresh, query{q[i].key, uint32(table), 0})
				w.classes = append(w.classes, class)
			}
			if table >= 0 {
				value = p.frozen.value(table)
			}
			for ; i < e; i++ {
				switch {
				case q[i].flag&queryFresh != 0:
				case !known && table < 0:
					seq := q[i].seq
					atomic.OrUint64(&p.gen.unknown[seq/64], 1<<(seq%64))
				case p.gen.values != nil:
					p.gen.values[q[i].seq] = value
				}
			}
		}
	}
}

// merge writes w.fresh and the keys of runs into a new run. It returns nil if no key is left.
func (w *worker) merge(b int, runs []*run) (*run, error) {
	s := w.p.s
	out, err := s.vol.newRun(s.nextNum(), b)
	if err != nil {
		return nil, err
	}
	fresh := &freshSource{keys: w.fresh, classes: w.classes}
	if s.vol.withValues {
		fresh.value = func(pos uint32) uint64 { return w.p.frozen.value(int(pos)) }
	}
	var sources []source
	for _, r := range runs {
		it, err := s.vol.iterate(r)
		if err != nil {
			out.abandon()
			return nil, err
		}
		defer it.rr.close()
		sources = append(sources, &runSource{it: it})
	}
	sources = append(sources, fresh)
	for _, src := range sources {
		if err := src.advance(); err != nil {
			out.abandon()
			return nil, err
		}
	}
	if err := merge(out, sources, &w.p.stop); err != nil {
		out.abandon()
		return nil, err
	}
	r, err := out.finish()
	if err != nil {
		return nil, fmt.Errorf("merge bucket %d: %w", b, err)
	}
	return r, nil
}
