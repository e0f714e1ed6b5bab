package testweb

import (
	"math"
	"slices"
	"sync"
	"time"
)

// A freshTracker measures how fresh a crawl's copies of changing pages are. The definitions are those of Cho and
// Garcia-Molina ("Synchronizing a database to improve freshness", SIGMOD 2000): a copy is fresh until its page changes,
// and its age is the time since that change.
//
// It uses only two facts: when a page was served in full, and when Config.Changes says that the page changes. A 304
// does not make a copy fresher: a correct one confirms a fresh copy, and a wrong one changes nothing. Times are
// nanoseconds since tracker.base.
type freshTracker struct {
	changes Changing
	base    time.Time
	most    int // maximum number of copies

	mu        sync.Mutex // guards the fields below
	began     int64
	copies    map[pageID]pageCopy
	uncounted int64
	served    int64
	confirmed int64
	renewed   int64
	wrong     int64
	width     int64 // of a bin, in nanoseconds
	bins      []freshBin
}

// A pageID identifies a page of the Origin.
type pageID struct{ host, page int64 }

// A pageCopy is the crawl's copy of a page.
type pageCopy struct {
	from  int64 // when the server served it
	stale int64 // when the page changes next; math.MaxInt64 means never
}

// A freshBin holds the sums of one period.
type freshBin struct {
	held  float64 // ns, summed over all copies: how long the crawl had them
	fresh float64 // ns, summed over all copies: how long they were fresh
	age   float64 // ns²: the integral of the copies' ages over time

	served, confirmed, renewed int64
}

const (
	// maxBins bounds the number of bins. If there are more, each two are merged into one.
	maxBins = 512
	// firstBin is the width of a bin at first.
	firstBin = time.Second / 4
)

func newFreshTracker(changes Changing, base time.Time, most int) *freshTracker {
	a := &freshTracker{changes: changes, base: base, most: most}
	a.reset(0)
	return a
}

// reset forgets all copies and begins anew at time now.
func (a *freshTracker) reset(now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began, a.copies, a.width, a.bins = now, map[pageID]pageCopy{}, int64(firstBin), nil
	a.uncounted, a.served, a.confirmed, a.renewed, a.wrong = 0, 0, 0, 0, 0
}

// note records a complete response with a page: its content with status 200, or a 304.
func (a *freshTracker) note(id pageID, status int, at int64) {
	if status != 200 && status != 304 {
		return
	}
	next := int64(math.MaxInt64)
	if status == 200 {
		if _, t := a.changes.Changed(id.host, id.page, a.base.Add(time.Duration(at))); !t.IsZero() {
			next = int64(t.Sub(a.base))
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	bin := a.bin(at)
	old, known := a.copies[id]
	if status == 304 {
		a.confirmed++
		bin.confirmed++
		if known && old.stale <= at {
			a.wrong++
		}
		return
	}
	a.served++
	bin.served++
	switch {
	case !known && len(a.copies) >= a.most:
		a.uncounted++
		return
	case known && at <= old.from: // of two concurrent responses the later one counts
		return
	case known:
		if old.stale <= at {
			a.renewed++
			bin.renewed++
		}
		a.span(old, at)
	}
	a.copies[id] = pageCopy{at, next}
}

// bin returns the bin of a time. It may merge bins.
func (a *freshTracker) bin(at int64) *freshBin {
	n := max(at-a.began, 0) / a.width
	for n >= maxBins {
		half := make([]freshBin, 0, maxBins)
		for i, b := range a.bins {
			if i%2 == 0 {
				half = append(half, b)
			} else {
				half[i/2].add(b)
			}
		}
		a.bins, a.width, n = half, 2*a.width, n/2
	}
	for int64(len(a.bins)) <= n {
		a.bins = append(a.bins, freshBin{})
	}
	return &a.bins[n]
}

func (b *freshBin) add(c freshBin) {
	b.held += c.held
	b.fresh += c.fresh
	b.age += c.age
	b.served += c.served
	b.confirmed += c.confirmed
	b.renewed += c.renewed
}

// span adds the time from when a copy was served until a later time to the bins.
func (a *freshTracker) span(c pageCopy, until int64) {
	a.bin(until) // merges bins, if needed, before the loop computes their bounds
	for from := max(c.from, a.began); from < until; {
		n := (from - a.began) / a.width
		to := min(until, a.began+(n+1)*a.width)
		b := &a.bins[n]
		b.held += float64(to - from)
		b.fresh += float64(max(0, min(to, c.stale)-from))
		if c.stale < to {
			begin, end := float64(max(from-c.stale, 0)), float64(to-c.stale)
			b.age += (end*end - begin*begin) / 2
		}
		from = to
	}
}

// A FreshReport tells how fresh the crawl's copies of the Origin's pages were. The copy of a page is the content that
// was last served in full with status 200.
type FreshReport struct {
	// Copies is the number of pages with a copy. Uncounted is the number of responses with further pages, which are
	// not measured.
	Copies    int64 `json:"copies"`
	Uncounted int64 `json:"uncounted,omitempty"`
	// Served counts the complete responses with a page's content, Confirmed those with status 304. Renewed counts the
	// Served ones that brought another version than the copy. Wrong counts the Confirmed ones whose copy was stale.
	Served    int64 `json:"served"`
	Confirmed int64 `json:"confirmed"`
	Renewed   int64 `json:"renewed"`
	Wrong     int64 `json:"wrongly_confirmed"`
	// Now describes the time of the report, Mean the average over all time since the first copy.
	Now  Freshness `json:"now"`
	Mean Freshness `json:"mean"`
	// Over describes consecutive periods of equal length since Report.Began; the last one may be shorter.
	Over []FreshStretch `json:"over"`
}

// Freshness describes how fresh copies are. Without copies all its fields are 0.
type Freshness struct {
	// Fresh is the fraction of the copies that are up to date.
	Fresh float64 `json:"fresh"`
	// Age is the mean age of the copies. The age of a copy is the time since its page first changed after it was
	// served; 0 if the copy is up to date.
	Age Seconds `json:"age"`
}

// A FreshStretch describes one period.
type FreshStretch struct {
	Until  Seconds `json:"until"`  // since Report.Began
	Copies float64 `json:"copies"` // mean number
	Freshness
	Served    int64 `json:"served"`
	Confirmed int64 `json:"confirmed"`
	Renewed   int64 `json:"renewed"`
}

// report returns the measurements up to now.
func (a *freshTracker) report(now int64) *FreshReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &FreshReport{
		Copies: int64(len(a.copies)), Uncounted: a.uncounted,
		Served: a.served, Confirmed: a.confirmed, Renewed: a.renewed, Wrong: a.wrong,
	}
	a.bin(now)
	// Count the time of each copy until now in a temporary copy of the bins.
	kept := a.bins
	a.bins = slices.Clone(kept)
	age := 0.0
	for _, c := range a.copies {
		a.span(c, now)
		if c.stale > now {
			r.Now.Fresh++
		} else {
			age += float64(now - c.stale)
		}
	}
	bins := a.bins
	a.bins = kept
	if n := float64(len(a.copies)); n > 0 {
		r.Now.Fresh /= n
		r.Now.Age = Seconds(age / n)
	}
	var all freshBin
	for i, b := range bins {
		all.add(b)
		from := int64(i) * a.width
		until := min(from+a.width, max(now-a.began, from+1))
		r.Over = append(r.Over, FreshStretch{
			Until: Seconds(until), Copies: b.held / float64(until-from), Freshness: b.mean(),
			Served: b.served, Confirmed: b.confirmed, Renewed: b.renewed,
		})
	}
	r.Mean = all.mean()
	return r
}

func (b *freshBin) mean() (f Freshness) {
	if b.held > 0 {
		f = Freshness{b.fresh / b.held, Seconds(b.age / b.held)}
	}
	return f
}
