package drum

import "sync/atomic"

// A source gives lists in the order of a run.
type source interface {
	// head is the list that is next, as far as it is left; n is 0 at the end.
	head() *cursor
	advance() error
}

// A cursor is a list whose keys are taken from the front.
type cursor struct {
	h      uint64
	class  uint8
	vals   []uint64 // none at the end
	values []uint64
}

func (c *cursor) before(o *cursor) bool {
	return c.h < o.h || c.h == o.h && c.class < o.class
}

// A runSource gives the lists of a run but those of dropped hosts.
type runSource struct {
	it      *runIter
	cur     cursor
	dropped map[uint64]int
}

func (s *runSource) head() *cursor { return &s.cur }

func (s *runSource) advance() error {
	for {
		if err := s.it.next(); err != nil {
			return err
		}
		if s.it.l.n == 0 {
			s.cur = cursor{}
			return nil
		}
		if len(s.dropped) > 0 {
			if _, ok := s.dropped[s.it.l.h]; ok {
				continue
			}
		}
		s.cur = cursor{s.it.l.h, s.it.l.class, s.it.vals, s.it.values}
		return nil
	}
}

// A freshSource gives new keys, sorted, in the classes that are given.
type freshSource struct {
	keys    []query
	classes []uint8 // of each key; a host's are the same
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
		if n := len(s.vals); n > 0 && s.vals[n-1] == v { // one of the odds in the package comment
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

// merge writes what sources give, each advanced to its first list; where two
// have the same key, that of the later source holds. stop ends it early.
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
		// Several have keys of this host and class.
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
				break // the rest goes as a whole
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
