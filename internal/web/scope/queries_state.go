package scope

// Each shows what q remembers, for a snapshot: keys of paths and how many
// queries they had.
func (q *Queries) Each(fn func(path uint64, queries uint32) error) error {
	for k, n := range q.count {
		if err := fn(k, n); err != nil {
			return err
		}
	}
	return nil
}

// Restore brings back what Each gave.
func (q *Queries) Restore(path uint64, queries uint32) {
	if q.limit == 0 || queries == 0 || len(q.count) >= q.paths {
		return
	}
	q.count[path] = min(queries, q.limit)
}
