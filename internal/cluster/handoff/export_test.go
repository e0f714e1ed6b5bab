package handoff

import "context"

// Urgent returns how many callers wait ahead of a Compact.
func (s *Store) Urgent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.urgent
}

// Compact compacts a source at once.
func (s *Store) Compact(ctx context.Context, id Source) error {
	o, err := s.source(id, false)
	if o == nil || err != nil {
		return err
	}
	return s.compact(ctx, o)
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
