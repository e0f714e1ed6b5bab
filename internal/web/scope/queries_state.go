package scope

// Each calls fn for each path that q keeps, with the path's key and its number of queries. A
// snapshot is made with it. It stops at the first error of fn and returns it.
func (q *Queries) Each(fn func(path uint64, queries uint32) error) error {
	for k, n := range q.count {
		if err := fn(k, n); err != nil {
			return err
		}
	}
	return nil
}

// Restore restores one path that Each gave. It ignores a path beyond the number of paths that q may
// keep.
func (q *Queries) Restore(path uint64, queries uint32) {
	if q.limit == 0 || queries == 0 || len(q.count) >= q.paths {
		return
	}
	q.count[path] = min(queries, q.limit)
}
