package drum

// Save answers all held items and writes all keys to disk, with mark as the owner's position.
func (s *Store) Save(mark []byte) error {
	if err := s.Flush(); err != nil {
		return err
	}
	if err := s.quiesce(); err != nil {
		return err
	}
	return s.flushTable(mark)
}
