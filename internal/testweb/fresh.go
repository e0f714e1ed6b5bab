package testweb

import (
	"math"
	"slices"
	"sync"
	"time"
)

// A freshAccount is the account of how fresh the copies are that a crawl has of
// pages that change. It follows Cho and Garcia-Molina ("Synchronizing a database
// to improve freshness", SIGMOD 2000): a copy is fresh until its page changes,
// and its age is the time since that change.
//
// The account rests on two things alone: when a page was served in full, and
// what Config.Changes says of that page. A 304 makes no copy fresher: a right
// one says that the copy is fresh already, and a wrong one changes nothing.
// Times are nanoseconds since the tracker's birth.
type freshAccount struct {
	changes Changing
	base    time.Time
	most    int // copies

	mu        sync.Mutex // guards what follows
	began     int64
	copies    map[pageID]pageCopy
	uncounted int64
	served    int64
	confirmed int64
	renewed   int64
	wrong     int64
	width     int64 // of a bin
	bins      []freshBin
}

// A pageID is a page of the Origin's.
type pageID struct{ host, page int64 }

// A pageCopy is the crawl's copy of a page.
type pageCopy struct {
	from  int64 // when it was served
	stale int64 // when the page changed next; never: math.MaxInt64
}

// A freshBin is a stretch of time.
type freshBin struct {
	held  float64 // ns, of all copies
	fresh float64 // ns of these in which they were fresh
	age   float64 // ns by ns: the integral of the copies' ages over time

	served, confirmed, renewed int64
}

const (
	// maxBins bounds the stretches of time. When there are more, each two become one.
	maxBins = 512
	// firstBin is how long a stretch is at first.
	firstBin = time.Second / 4
)

func newFreshAccount(changes Changing, base time.Time, most int) *freshAccount {
	a := &freshAccount{changes: changes, base: base, most: most}
	a.reset(0)
	return a
}

// reset forgets all copies; now is the new beginning.
func (a *freshAccount) reset(now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began, a.copies, a.width, a.bins = now, map[pageID]pageCopy{}, int64(firstBin), nil
	a.uncounted, a.served, a.confirmed, a.renewed, a.wrong = 0, 0, 0, 0, 0
}

// note takes in a complete answer with a page: its content with 200, or a 304.
func (a *freshAccount) note(id pageID, status int, at int64) {
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
	case known && at <= old.from: // two answers at once; the later one is kept
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

// bin is the stretch that a time lies in.
func (a *freshAccount) bin(at int64) *freshBin {
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

// span counts the time from when a copy was served until a later time.
func (a *freshAccount) span(c pageCopy, until int64) {
	a.bin(until) // so that the stretches do not become longer meanwhile
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

// A FreshReport is how fresh the copies were that the crawl had of the Origin's
// pages: of each page the content that was served last with 200 and in full.
type FreshReport struct {
	// Copies is how many pages there is a copy of. Uncounted are the answers with
	// further pages, of which no account is kept.
	Copies    int64 `json:"copies"`
	Uncounted int64 `json:"uncounted,omitempty"`
	// Served are the complete answers with a page's content, Confirmed those with
	// 304. Renewed are those of the first that brought another version than the
	// copy, Wrong the confirmations of a copy that was not up to date.
	Served    int64 `json:"served"`
	Confirmed int64 `json:"confirmed"`
	Renewed   int64 `json:"renewed"`
	Wrong     int64 `json:"wrongly_confirmed"`
	// Now is the present moment, Mean the mean over all time since the first copy.
	Now  Freshness `json:"now"`
	Mean Freshness `json:"mean"`
	// Over has equal stretches of time since Report.Began, but for the last one.
	Over []FreshStretch `json:"over"`
}

// Freshness is how fresh copies are. Where there are none both are 0.
type Freshness struct {
	// Fresh is the share of the copies that are up to date.
	Fresh float64 `json:"fresh"`
	// Age is the mean of the copies' ages: the time since the first change that
	// a copy has missed; 0 for a copy that is up to date.
	Age Seconds `json:"age"`
}

// A FreshStretch is a stretch of time.
type FreshStretch struct {
	Until  Seconds `json:"until"` // since Report.Began
	Copies float64 `json:"copies"`
	Freshness
	Served    int64 `json:"served"`
	Confirmed int64 `json:"confirmed"`
	Renewed   int64 `json:"renewed"`
}

// report is the account up to now.
func (a *freshAccount) report(now int64) *FreshReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &FreshReport{
		Copies: int64(len(a.copies)), Uncounted: a.uncounted,
		Served: a.served, Confirmed: a.confirmed, Renewed: a.renewed, Wrong: a.wrong,
	}
	a.bin(now)
	// Count the stretch of each copy until now in a copy of the bins.
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
