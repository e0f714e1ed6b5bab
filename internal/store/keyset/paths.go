package keyset

import "slices"

// Paths is a set of paths of one host, each with as many bits as the seen-set knows.
type Paths struct {
	Lists []List // ascending after Order, one for each width
	N     int    // number of paths
}

// Add adds a List, which it copies.
func (s *Paths) Add(l List) {
	if len(l.Paths) == 0 {
		return
	}
	s.N += len(l.Paths)
	for i := range s.Lists {
		if s.Lists[i].Width == l.Width {
			s.Lists[i].Paths = append(s.Lists[i].Paths, l.Paths...)
			return
		}
	}
	s.Lists = append(s.Lists, List{Width: l.Width, Paths: slices.Clone(l.Paths)})
}

// PathsOf returns the set of one whole path.
func PathsOf(path uint64) Paths {
	var s Paths
	s.Add(List{Width: WholeKey, Paths: []uint64{path}})
	s.Order()
	return s
}

// Order sorts the paths, as Has requires, and removes duplicates.
func (s *Paths) Order() {
	s.N = 0
	for i := range s.Lists {
		p := s.Lists[i].Paths
		slices.Sort(p)
		s.Lists[i].Paths = slices.Compact(p)
		s.N += len(s.Lists[i].Paths)
	}
}

// Has reports whether a path, given by its top width bits, is in the set. It compares the bits that
// both have.
func (s *Paths) Has(width uint, path uint64) bool {
	for _, l := range s.Lists {
		low, high := path, path
		if l.Width >= width {
			d := l.Width - width
			low, high = path<<d, path<<d|(1<<d-1)
		} else {
			low = path >> (width - l.Width)
			high = low
		}
		if i, _ := slices.BinarySearch(l.Paths, low); i < len(l.Paths) && l.Paths[i] <= high {
			return true
		}
	}
	return false
}

// Without returns the paths that are not in o.
func (s *Paths) Without(o *Paths) (left Paths) {
	for _, l := range s.Lists {
		rest := List{Width: l.Width}
		for _, p := range l.Paths {
			if !o.Has(l.Width, p) {
				rest.Paths = append(rest.Paths, p)
			}
		}
		left.Add(rest)
	}
	return left
}

// Within returns the paths that are in o.
func (s *Paths) Within(o *Paths) (both Paths) {
	out := s.Without(o)
	return s.Without(&out)
}
