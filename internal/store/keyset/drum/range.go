package drum

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A List holds keys of one host: the top Width bits of their paths, as ascending numbers.
type List struct {
	Width uint
	Paths []uint64
}

// listLimit is the maximum length of a List that Range makes from a table.
const listLimit = 4096

// Range calls fn with all keys of host, in Lists, but without values. A key that was inserted more than once may be
// reported more than once. The List is valid until fn returns. fn must not call the Store. Held items are left out:
// call Flush first. Range reads from disk. After a *Damage, the caller may call Rebuild.
func (s *Store) Range(host uint64, fn func(List) error) error {
	if s.err != nil {
		return s.err
	}
	h := place(host, s.seed)
	for _, r := range s.buckets[h>>s.shift].runs {
		if err := s.rangeRun(r, h, fn); err != nil {
			if d, ok := errors.AsType[*Damage](err); ok {
				s.damages = slices.DeleteFunc(s.damages, func(o Damage) bool { return o.Bucket == d.Bucket })
				s.damages = append(s.damages, *d)
			}
			return err
		}
	}
	if s.frozen != nil {
		if err := s.rangeTable(s.frozen, h, fn); err != nil {
			return err
		}
	}
	return s.rangeTable(s.mem, h, fn)
}

func (s *Store) rangeRun(r *run, h uint64, fn func(List) error) error {
	rr, err := s.vol.reader(r)
	if err != nil {
		return err
	}
	defer rr.close()
	i, j := r.blocksOf(h)
	out := make([]uint64, listKeys)
	for at := i; at < j; at++ {
		b, err := rr.block(at, j)
		if err != nil {
			return err
		}
		for {
			var l list
			err := b.next(&l)
			var vals []uint64
			if err == nil && l.n > 0 && l.h == h {
				vals, err = b.read(&l, out)
			}
			if err != nil {
				return r.damage(s.vol, r.blocks[at].offset(), err)
			}
			if l.n == 0 || l.h > h {
				break
			}
			if l.h < h {
				continue
			}
			if err := fn(List{width(l.class), vals}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) rangeTable(t *table, h uint64, fn func(List) error) error {
	var found []uint64
	t.ofHost(h, func(pos int) { found = append(found, t.at(pos).p) })
	slices.Sort(found)
	for part := range slices.Chunk(found, listLimit) {
		if err := fn(List{Width: 64, Paths: part}); err != nil {
			return err
		}
	}
	return nil
}

// An inserter sorts keys into new runs, bucket by bucket.
type inserter struct {
	s          *Store
	rows       []insertRow
	only       int // the only bucket to write, or -1 for all
	runs       [][]*run
	extraClass uint8 // added to classes, because each run counts only its own keys of a host
}

type insertRow struct {
	h, v  uint64
	class uint8 // maxClass+1: not yet decided, and v is a whole path
}

func (r insertRow) compare(o insertRow) int {
	switch {
	case r.h != o.h:
		return order(r.h < o.h)
	case r.class != o.class:
		return order(r.class < o.class)
	case r.v != o.v:
		return order(r.v < o.v)
	}
	return 0
}

func order(less bool) int {
	if less {
		return -1
	}
	return 1
}

// add takes a row. When there are as many rows as in a table, it writes all of them to disk.
func (in *inserter) add(r insertRow) error {
	if b := int(r.h >> in.s.shift); in.only >= 0 && b != in.only {
		return nil
	}
	in.rows = append(in.rows, r)
	if len(in.rows) >= max(in.s.tune.memKeys, 1024) {
		return in.flush()
	}
	return nil
}

// flush writes the rows to new runs.
func (in *inserter) flush() error {
	slices.SortFunc(in.rows, insertRow.compare)
	for len(in.rows) > 0 {
		b := int(in.rows[0].h >> in.s.shift)
		w, err := in.s.vol.newRun(in.s.nextNum(), b)
		if err != nil {
			return err
		}
		for len(in.rows) > 0 && int(in.rows[0].h>>in.s.shift) == b {
			n := 0
			for n < len(in.rows) && in.rows[n].h == in.rows[0].h {
				n++
			}
			if err := in.host(w, in.rows[:n]); err != nil {
				w.abandon()
				return err
			}
			in.rows = in.rows[n:]
		}
		r, err := w.finish()
		if err != nil {
			return err
		}
		in.runs[b] = append(in.runs[b], r)
	}
	in.rows = nil
	in.extraClass = cmp.Or(in.extraClass, 1)
	return nil
}

// host writes the rows of one host to w.
func (in *inserter) host(w *runWriter, rows []insertRow) error {
	class := min(maxClass, classOf(int64(len(rows)))+in.extraClass)
	for i := range rows {
		if rows[i].class > maxClass {
			rows[i].class, rows[i].v = class, rows[i].v>>(64-width(class))
		}
	}
	slices.SortFunc(rows, insertRow.compare)
	for _, r := range slices.Compact(rows) {
		if err := w.add(r.h, r.class, []uint64{r.v}, nil); err != nil {
			return err
		}
	}
	return nil
}

// ErrWidth means that a List has a Width that no class has, or a path that exceeds it.
var ErrWidth = errors.New("drum: bad list")

// Insert adds keys that another Store's Range reported: load passes them to add. If Insert returns nil, all of them are
// known and durable. After an error of load, none is. Insert waits for a running pass and may emit answers. A Store
// with values has no Insert.
func (s *Store) Insert(load func(add func(host uint64, l List) error) error) error {
	if err := s.quiesce(); err != nil {
		return err
	}
	in := &inserter{s: s, only: -1, runs: make([][]*run, len(s.buckets))}
	err := load(in.list)
	if err == nil {
		err = in.flush()
	}
	if err != nil {
		in.abandon()
		return err
	}
	return s.installRuns(in, false)
}

// list takes the keys of a List.
func (in *inserter) list(host uint64, l List) error {
	s := in.s
	class := uint8(0)
	for class < maxClass && width(class) != l.Width {
		class++
	}
	if width(class) != l.Width {
		return fmt.Errorf("%w: width %d", ErrWidth, l.Width)
	}
	h := place(host, s.seed)
	for _, v := range l.Paths {
		if l.Width < 64 && v>>l.Width != 0 {
			return fmt.Errorf("%w: path %#x has more than %d bits", ErrWidth, v, l.Width)
		}
		r := insertRow{h: h, v: v, class: class}
		if class == maxClass {
			r.class = maxClass + 1 // it may be stored with fewer bits
		}
		if err := in.add(r); err != nil {
			return err
		}
	}
	return nil
}

// abandon marks the new runs for removal. No manifest names them.
func (in *inserter) abandon() {
	for _, runs := range in.runs {
		in.s.obsolete = append(in.s.obsolete, runs...)
	}
}

// installRuns adds an inserter's runs to the Store. If replace is true, they replace the runs of bucket in.only.
func (s *Store) installRuns(in *inserter, replace bool) error {
	all := make([][]*run, len(s.buckets))
	total := int64(0)
	for i := range s.buckets {
		if all[i] = in.runs[i]; !(replace && i == in.only) {
			all[i] = append(slices.Clone(s.buckets[i].runs), in.runs[i]...)
		}
		for _, r := range all[i] {
			total += r.keys
		}
	}
	if err := s.writeManifest(all, s.mark); err != nil {
		return s.fail(err)
	}
	for i := range s.buckets {
		b := &s.buckets[i]
		before := b.runs
		b.runs = all[i]
		switch {
		case replace && i == in.only:
			s.obsolete = append(s.obsolete, before...)
		case len(in.runs[i]) == 0:
			continue
		}
		s.onDisk = true
		if b.filter != nil && !replace && b.keys() <= b.filter.keys {
			var stop atomic.Bool
			for _, r := range in.runs[i] {
				if err := s.vol.fill(b.filter, r, &stop); err != nil {
					return s.fail(err)
				}
			}
			continue
		}
		var d *Damage
		if err := s.refill(b, total, s.mem, s.frozen); errors.As(err, &d) {
			s.damages = append(s.damages, *d) // in a run that existed before
		} else if err != nil {
			return s.fail(err)
		}
	}
	if s.cache == nil && s.onDisk && !s.cfg.Known {
		s.cache = newCache(s.tune.cacheSets)
	}
	return nil
}

// quiesce waits until no pass runs and the manifest names all runs.
func (s *Store) quiesce() error {
	if s.err != nil {
		return s.err
	}
	for s.state != idle {
		if s.state == preparing {
			<-s.pass.ready
			s.pass, s.state = nil, idle // the pass has not done anything yet
			break
		}
		s.wait()
		if err := s.step(1 << 30); err != nil {
			return err
		}
	}
	return s.awaitManifest()
}

// Rebuild rebuilds a damaged bucket from the keys that the owner has. load passes them in any order: to keys, or as the
// Lists of an Insert to lists. Rebuild ignores keys of other buckets. They must include all keys that were inserted
// before Mark. Later keys do no harm if they are durable. If damage has stopped a pass, the pass runs again afterwards.
// A Store with values cannot be rebuilt.
func (s *Store) Rebuild(
	bucket int, load func(keys func([]link.Key) error, lists func(host uint64, l List) error) error,
) error {
	if s.cfg.Values {
		return errors.New("drum: a rebuild would lose the values")
	}
	if s.err != nil {
		return s.err
	}
	if bucket < 0 || bucket >= len(s.buckets) {
		return fmt.Errorf("drum: rebuild bucket %d: there are only %d", bucket, len(s.buckets))
	}
	if s.state != damaged {
		if err := s.quiesce(); err != nil && s.state != damaged {
			return err
		}
	}
	if err := s.awaitManifest(); err != nil {
		return err
	}
	in := &inserter{s: s, only: bucket, runs: make([][]*run, len(s.buckets))}
	err := load(func(keys []link.Key) error {
		for _, k := range keys {
			if err := in.add(insertRow{h: place(k.Host, s.seed), v: k.Path, class: maxClass + 1}); err != nil {
				return err
			}
		}
		return nil
	}, in.list)
	if err == nil {
		err = in.flush()
	}
	if err != nil {
		in.abandon()
		return fmt.Errorf("rebuild bucket %d: %w", bucket, err)
	}
	if err := s.installRuns(in, true); err != nil {
		return err
	}
	s.damages = slices.DeleteFunc(s.damages, func(d Damage) bool { return d.Bucket == bucket })
	if s.state == damaged {
		s.rerunPass()
	}
	return nil
}

// rerunPass restarts the pass that damage has stopped.
func (s *Store) rerunPass() {
	p := s.pass
	for i := range s.buckets {
		p.runs[i] = s.buckets[i].runs
	}
	p.err = nil
	p.stop.Store(false)
	p.done = make(chan struct{})
	s.state = running
	s.start(p)
}
