package handoff

// Peak returns the maximum memory of the buffers of Compacts and Imports.
func (s *Store) Peak() int64 { return s.gauge.peak }

// Buffered returns their present memory.
func (s *Store) Buffered() int64 { return s.gauge.now }

// Urgent returns how many callers wait ahead of a Compact.
func (s *Store) Urgent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.urgent
}
