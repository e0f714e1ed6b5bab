package testweb

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A violationKind is the Kind of a Violation, as a number.
type violationKind uint8

const (
	tooSoon violationKind = iota
	concurrent
	connections
	beforeRetry
	robots
	noRest
	violationKinds
)

func (k violationKind) String() string {
	return [...]string{"gap", "concurrent", "connections", "retry-after", "robots", "rest"}[k]
}

// gapBounds are the upper bounds, in nanoseconds, of the classes in which gaps are counted. The last class has no
// bound.
var gapBounds = func() (b []int64) {
	for unit := time.Millisecond; unit <= 100*time.Second; unit *= 10 {
		b = append(b, int64(unit), int64(2*unit), int64(5*unit))
	}
	return b
}()

// gapCounts counts the gaps of all groups of one kind.
type gapCounts struct {
	classes [19]atomic.Int64
	// promised counts the gaps with a promised delay, short the shorter ones of them. least is the smallest
	// gap/promise of all, in millionths plus one; 0: there is none yet.
	promised atomic.Int64
	short    atomic.Int64
	least    atomic.Int64
}

func (g *gapCounts) note(gap, promised int64) {
	i, _ := slices.BinarySearch(gapBounds, gap)
	g.classes[i].Add(1)
	if promised <= 0 {
		return
	}
	g.promised.Add(1)
	if gap < promised {
		g.short.Add(1)
	}
	share := int64(float64(gap)/float64(promised)*1e6) + 1
	for {
		old := g.least.Load()
		if old != 0 && old <= share || g.least.CompareAndSwap(old, share) {
			return
		}
	}
}

func (g *gapCounts) reset() {
	for i := range g.classes {
		g.classes[i].Store(0)
	}
	g.promised.Store(0)
	g.short.Store(0)
	g.least.Store(0)
}

// reportGaps sums up the counts, which are of one kind of group.
func reportGaps(counts ...*gapCounts) (r GapReport) {
	for i := range counts[0].classes {
		class := GapClass{UpTo: -Seconds(time.Second)}
		if i < len(gapBounds) {
			class.UpTo = Seconds(gapBounds[i])
		}
		for _, g := range counts {
			class.Gaps += g.classes[i].Load()
		}
		if r.Gaps += class.Gaps; class.Gaps > 0 {
			r.Lengths = append(r.Lengths, class)
		}
	}
	for _, g := range counts {
		r.Promised += g.promised.Load()
		r.TooShort += g.short.Load()
		if s := g.least.Load(); s > 0 {
			if share := float64(s-1) / 1e6; r.Least == nil || *r.Least > share {
				r.Least = &share
			}
		}
	}
	return r
}

// trapCounts counts the requests for pages of traps.
type trapCounts struct {
	requests, depth atomic.Int64

	mu  sync.Mutex // guards url
	url string     // of the deepest request
}

func (c *trapCounts) note(t *tracker, r *request) {
	c.requests.Add(1)
	if int64(r.trap) <= c.depth.Load() {
		return
	}
	c.mu.Lock()
	if int64(r.trap) > c.depth.Load() {
		c.depth.Store(int64(r.trap))
		c.url = r.url(t)
	}
	c.mu.Unlock()
}

func (c *trapCounts) reset() {
	c.mu.Lock()
	c.requests.Store(0)
	c.depth.Store(0)
	c.url = ""
	c.mu.Unlock()
}

func (c *trapCounts) report() TrapReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return TrapReport{Requests: c.requests.Load(), Deepest: c.depth.Load(), URL: c.url}
}

// The bounds of urlCounts.
const (
	maxCounted    = 10_000
	maxCountedURL = 1000 // bytes
)

// urlCounts counts URLs to find the most frequent ones. Its memory is bounded: when it has too many URLs, it forgets
// the rarer half.
type urlCounts struct {
	mu sync.Mutex // guards n
	n  map[string]int64
}

func (c *urlCounts) add(url string) {
	if len(url) > maxCountedURL {
		url = url[:maxCountedURL] + "..."
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int64{}
	}
	if c.n[url]++; len(c.n) <= maxCounted {
		return
	}
	counts := slices.Sorted(maps.Values(c.n))
	bound := counts[len(counts)/2]
	maps.DeleteFunc(c.n, func(_ string, n int64) bool { return n <= bound })
}

// most returns the k most frequent URLs, the most frequent first.
func (c *urlCounts) most(k int) []URLCount {
	c.mu.Lock()
	all := make([]URLCount, 0, len(c.n))
	for u, n := range c.n {
		all = append(all, URLCount{u, n})
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b URLCount) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.URL, b.URL))
	})
	return slices.Clip(all[:min(k, len(all))])
}

func (c *urlCounts) reset() {
	c.mu.Lock()
	c.n = nil
	c.mu.Unlock()
}
