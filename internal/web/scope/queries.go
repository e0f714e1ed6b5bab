package scope

import (
	"cmp"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	defaultMaxQueries = 10_000
	defaultPaths      = 1 << 16
)

// Queries guards against query explosion: one path with ever new queries, or with ever new parameters
// (/a;v=1/b). Call Admit once for each new URL, after the seen-set, so that the number of calls for a path
// is the number of its distinct queries and parameters. One goroutine owns a Queries. After a restart, call
// Admit again for the URLs that were accepted before, in their order. It then has the same state.
//
// It keeps a bounded number of paths, however many hosts and paths the crawl meets, by Misra and
// Gries' algorithm ("Finding repeated elements", 1982). After n queries a path's count is too low
// by at most n divided by the number of paths, and never too high. So it may detect a trap late. It
// never takes a harmless path for a trap, unless 64-bit hashes collide.
type Queries struct {
	limit uint32
	paths int
	count map[uint64]uint32
}

// NewQueries allows limit queries for one path. A limit of 0 means 10,000, and a negative limit
// means no limit. paths is the number of paths to keep; 0 means 65,536, which takes about 2 MiB.
func NewQueries(limit, paths int) *Queries {
	limit = cmp.Or(limit, defaultMaxQueries)
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

// Admit counts u. The verdict is TrapQueryExplosion if u's path has already had the allowed number
// of queries and parameters. URLs without a query and without parameters are not counted.
func (q *Queries) Admit(u weburl.URL) Judgement { return q.AdmitFor("", u) }

// AdmitFor is Admit for a link of an application, each of which has its own bound; "" is the crawl itself.
func (q *Queries) AdmitFor(app string, u weburl.URL) Judgement {
	query, _ := u.Query()
	parameters := strings.IndexByte(u.Path(), ';') >= 0
	if query == "" && !parameters || q.limit == 0 {
		return Judgement{In: true}
	}
	s := u.String()
	key := xxhash.Sum64String(s[:len(s)-len(query)])
	if parameters {
		var d xxhash.Digest
		d.Reset()
		d.WriteString(u.Origin())
		for segment := range strings.SplitSeq(u.Path()[1:], "/") {
			segment, _, _ = strings.Cut(segment, ";")
			d.WriteString("/")
			d.WriteString(segment)
		}
		d.WriteString("?")
		key = d.Sum64()
	}
	if app != "" {
		key ^= xxhash.Sum64String(app)
	}
	n, known := q.count[key]
	switch {
	case known && n >= q.limit:
		return Judgement{Reason: TrapQueryExplosion}
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
	return Judgement{In: true}
}
