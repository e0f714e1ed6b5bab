package journal

// Err returns the error that stopped the Journal, or nil.
func (j *Journal) Err() error { return j.err }
