package handoff

import "context"

// Compact compacts a source at once.
func (s *Store) Compact(ctx context.Context, id Source) error {
	o, err := s.source(id, false)
	if o == nil || err != nil {
		return err
	}
	return s.compact(ctx, o)
}

// Sizes returns the bytes of a source's snapshot, and of its records since.
func (s *Store) Sizes(id Source) (snapshot, since int64) {
	o, err := s.source(id, false)
	if o == nil || err != nil {
		return 0, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(o.snapshot), o.j.SinceSnapshot()
}

// Damaged returns the damage that Open, Compact and Import have found.
func (s *Store) Damaged() []*Damage {
	var ds []*Damage
	for _, o := range s.all() {
		o.mu.Lock()
		if o.damage != nil {
			ds = append(ds, o.damage)
		}
		o.mu.Unlock()
	}
	return ds
}
