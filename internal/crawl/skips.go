package crawl

import (
	"slices"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// skips are the URLs that the crawl has found and does not visit: they are counted, and logged.
type skips struct {
	tally   *report.Tally
	log     *report.Skipped
	clock   clock.Clock
	lately  recent       // URLs that were logged lately
	counted []state.Skip // not in a finish yet: of the current visit, and of links that the seen-set held back
}

// add counts and logs a URL. If the URL is found again soon, it is not logged again.
func (s *skips) add(k visit.Skip) {
	s.count(k.Reason)
	if s.lately.add(link.KeyOf(k.Link.URL)) {
		reason, rule := report.SplitReason(k.Reason)
		s.log.Write(report.Skip{Time: s.clock.Now(), URL: k.Link.URL.String(), Via: k.Link.Via, Hops: k.Link.Hops,
			Depth: k.Link.Depth(), Seed: k.Link.Seed, Reason: reason, Rule: rule})
	}
}

// count counts a URL, now and in the next finish.
func (s *skips) count(reason string) {
	s.tally.Skipped(reason)
	i := slices.IndexFunc(s.counted, func(k state.Skip) bool { return k.Reason == reason })
	if i < 0 {
		i, s.counted = len(s.counted), append(s.counted, state.Skip{Reason: reason})
	}
	s.counted[i].N++
}

// recent is a set of at most 2*recentMax keys that forgets older keys.
type recent struct{ now, before map[link.Key]struct{} }

const recentMax = 1 << 16

// add adds k and reports whether it is new.
func (r *recent) add(k link.Key) bool {
	if _, ok := r.now[k]; ok {
		return false
	}
	_, ok := r.before[k]
	if len(r.now) >= recentMax || r.now == nil {
		r.now, r.before = make(map[link.Key]struct{}), r.now
	}
	r.now[k] = struct{}{}
	return !ok
}
