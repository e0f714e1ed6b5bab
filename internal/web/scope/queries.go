package scope

import (
	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	defaultMaxQueries = 10_000
	defaultPaths      = 1 << 16
)

// Queries guards against query explosion: one path under ever new queries.
// Ask it once for each new URL, after the seen-set: so the number of calls for
// a path is the number of its distinct queries. One goroutine owns it. After a
// restart, ask it again for the URLs accepted before, in their order: it then
// has the same state.
//
// It remembers a bounded number of paths, however many hosts and paths the
// crawl meets, by Misra and Gries' algorithm ("Finding repeated elements",
// 1982): after n queries a path's count is too low by at most n divided by that
// number, and never too high. So a trap may be noticed late, and an innocent
// path is never taken for one (but for the collision of 64-bit hashes).
type Queries struct {
	limit uint32
	paths int
	count map[uint64]uint32
}

// NewQueries allows limit queries for one path; 0 means 10,000, a negative
// number no limit. It remembers as many paths as paths says; 0 means 65,536,
// which takes about 2 MiB.
func NewQueries(limit, paths int) *Queries {
	if limit == 0 {
		limit = defaultMaxQueries
	}
	if paths <= 0 {
		paths = defaultPaths
	}
	q := &Queries{paths: paths}
	if limit > 0 {
		q.limit = uint32(min(limit, 1<<31))
		q.count = make(map[uint64]uint32)
	}
	return q
}

// Admit counts u and says whether its path has had no more queries than
// allowed. URLs without a query are not counted.
func (q *Queries) Admit(u weburl.URL) Verdict {
	query, ok := u.Query()
	if !ok || query == "" || q.limit == 0 {
		return Verdict{In: true}
	}
	s := u.String()
	key := xxhash.Sum64String(s[:len(s)-len(query)])
	n, known := q.count[key]
	switch {
	case known && n >= q.limit:
		return Verdict{Reason: TrapQueryExplosion}
	case known || len(q.count) < q.paths:
		q.count[key] = n + 1
	default:
		for k, n := range q.count {
			if n == 1 {
				delete(q.count, k)
			} else {
				q.count[k] = n - 1
			}
		}
	}
	return Verdict{In: true}
}
