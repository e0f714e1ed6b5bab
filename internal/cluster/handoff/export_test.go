package handoff

// Peak is the most that live buffers of Compacts and Imports ever had.
func (s *Store) Peak() int64 { return s.gauge.peak }

// Buffered is what they have now.
func (s *Store) Buffered() int64 { return s.gauge.now }

// Urgent is how many wait ahead of a Compact.
func (s *Store) Urgent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.urgent
}
