package drum

import "sync/atomic"

// A source delivers lists in the order of a run.
type source interface {
	// head returns what is left of the current list. At the end its vals are empty.
	head() *cursor
	advance() error
}

// A cursor is a list whose keys are consumed from the front.
type cursor struct {
	h      uint64
	class  uint8
	vals   []uint64 // empty at the end
	values []uint64
}

func (c *cursor) before(o *cursor) bool {
	return c.h < o.h || c.h == o.h && c.class < o.class
}

// A runSource delivers the lists of a run.
type runSource struct {
	it  *runIter
	cur cursor
}

func (s *runSource) head() *cursor { return &s.cur }

func (s *runSource) advance() error {
	if err := s.it.next(); err != nil {
		return err
	}
	s.cur = cursor{s.it.l.h, s.it.l.class, s.it.vals, s.it.values}
	if s.it.l.n == 0 {
		s.cur = cursor{}
	}
	return nil
}

// A freshSource delivers new keys, which are sorted, in given classes.
type freshSource struct {
	keys    []query
	classes []uint8 // class of each key; the same for all keys of a host
	value   func(seq uint32) uint64
	cur     cursor
	vals    []uint64
	values  []uint64
}

func (s *freshSource) head() *cursor { return &s.cur }

func (s *freshSource) advance() error {
	if len(s.keys) == 0 {
		s.cur = cursor{}
		return nil
	}
	s.vals, s.values = s.vals[:0], s.values[:0]
	h, class := s.keys[0].h, s.classes[0]
	shift := 64 - width(class)
	for len(s.keys) > 0 && s.keys[0].h == h && len(s.vals) < listKeys {
		v := s.keys[0].p >> shift
		if n := len(s.vals); n > 0 && s.vals[n-1] == v { // a false duplicate, see the package comment
			s.keys, s.classes = s.keys[1:], s.classes[1:]
			continue
		}
		s.vals = append(s.vals, v)
		if s.value != nil {
			s.values = append(s.values, s.value(s.keys[0].seq))
		}
		s.keys, s.classes = s.keys[1:], s.classes[1:]
	}
	s.cur = cursor{h, class, s.vals, s.values}
	return nil
}

// merge writes the lists of all sources to w. Each source must already be advanced to its first list. If several
// sources have the same key, the value of the last source is used. If stop becomes true, merge returns errStopped.
func merge(w *runWriter, sources []source, stop *atomic.Bool) error {
	withValues := w.v.withValues
	var one [1]uint64
	var val []uint64
	for {
		if stop.Load() {
			return errStopped
		}
		var lowest *cursor
		same := 0
		at := 0
		for i, s := range sources {
			c := s.head()
			if len(c.vals) == 0 {
				continue
			}
			switch {
			case lowest == nil || c.before(lowest):
				lowest, same, at = c, 1, i
			case !lowest.before(c):
				same++
			}
		}
		if lowest == nil {
			return nil
		}
		if same == 1 {
			if err := w.add(lowest.h, lowest.class, lowest.vals, lowest.values); err != nil {
				return err
			}
			if err := sources[at].advance(); err != nil {
				return err
			}
			continue
		}
		// Several sources have keys of this host and class.
		h, class := lowest.h, lowest.class
		for {
			n := 0
			var least uint64
			for _, s := range sources {
				c := s.head()
				if len(c.vals) == 0 || c.h != h || c.class != class {
					continue
				}
				if n++; n == 1 || c.vals[0] < least {
					least = c.vals[0]
				}
			}
			if n == 0 {
				break
			}
			if n == 1 {
				break // one source is left: copy the rest of its list at once
			}
			for _, s := range sources {
				c := s.head()
				if len(c.vals) == 0 || c.h != h || c.class != class || c.vals[0] != least {
					continue
				}
				if withValues {
					one[0] = c.values[0]
					val = one[:]
					c.values = c.values[1:]
				}
				if c.vals = c.vals[1:]; len(c.vals) == 0 {
					if err := s.advance(); err != nil {
						return err
					}
				}
			}
			if err := w.add(h, class, []uint64{least}, val); err != nil {
				return err
			}
		}
	}
}
