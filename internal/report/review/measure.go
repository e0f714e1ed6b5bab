package review

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// A histogram counts values by magnitude: 16 bins for each power of two. Its size is fixed.
type histogram struct {
	n, sum, max int64
	bins        [16 + 59*16]int64
}

func bin(v int64) int {
	if v < 16 {
		return int(v)
	}
	e := bits.Len64(uint64(v)) - 5
	return e*16 + int(v>>e)
}

// middle returns the value in the middle of a bin.
func middle(bin int) int64 {
	if bin < 32 {
		return int64(bin)
	}
	e := bin/16 - 1
	return int64(bin-e*16)<<e + 1<<(e-1)
}

func (h *histogram) add(v int64) {
	v = max(v, 0)
	h.n++
	h.max = max(h.max, v)
	if h.sum+v >= h.sum {
		h.sum += v
	}
	h.bins[bin(v)]++
}

// percentiles returns zeros if h is empty.
func (h *histogram) percentiles() Percentiles {
	p := Percentiles{Count: h.n, Max: h.max}
	if h.n == 0 {
		return p
	}
	p.Mean = h.sum / h.n
	at := func(percent int64) int64 {
		rank, seen := (h.n*percent+99)/100, int64(0)
		for i, n := range h.bins {
			if seen += n; seen >= rank {
				return min(middle(i), h.max)
			}
		}
		return h.max
	}
	p.P50, p.P90, p.P95, p.P99 = at(50), at(90), at(95), at(99)
	return p
}

// bars are counts between fixed bounds.
type bars struct {
	bounds []int64 // the first is the least value; the last bar has no end
	counts []int64
}

func newBars(bounds ...int64) *bars { return &bars{bounds, make([]int64, len(bounds))} }

func (b *bars) add(v int64) {
	i, found := slices.BinarySearch(b.bounds, v)
	if !found {
		i--
	}
	b.counts[max(i, 0)]++
}

// list returns the bars from the first to the last that is not empty.
func (b *bars) list() []Bar {
	out := []Bar{}
	for i, n := range b.counts {
		bar := Bar{From: b.bounds[i], Count: n}
		if i+1 < len(b.bounds) {
			bar.To = b.bounds[i+1]
		}
		out = append(out, bar)
	}
	for len(out) > 0 && out[len(out)-1].Count == 0 {
		out = out[:len(out)-1]
	}
	for len(out) > 0 && out[0].Count == 0 {
		out = out[1:]
	}
	return out
}

// maxSpans is the number of spans of a timeline.
const maxSpans = 240

// A timeline counts by time in at most maxSpans spans. When the time outgrows them, their width doubles.
type timeline struct {
	width int64          // seconds, a power of two; 0: empty
	spans map[int64]Span // by Unix time divided by width
	first int64
	last  int64
}

// add returns the span of t after the caller's change.
func (l *timeline) add(t time.Time, change func(*Span)) {
	if l.width == 0 {
		l.width, l.spans = 1, map[int64]Span{}
		l.first, l.last = t.Unix(), t.Unix()
	}
	i := floorDiv(t.Unix(), l.width)
	first, last := min(l.first, i), max(l.last, i)
	for last-first >= maxSpans {
		l.double()
		i = i >> 1
		first, last = min(l.first, i), max(l.last, i)
	}
	l.first, l.last = first, last
	s := l.spans[i]
	change(&s)
	l.spans[i] = s
}

func (l *timeline) double() {
	l.width *= 2
	half := make(map[int64]Span, len(l.spans))
	for i, s := range l.spans {
		h := half[i>>1]
		h.Pages += s.Pages
		h.Other += s.Other
		h.Failed += s.Failed
		h.Bytes += s.Bytes
		half[i>>1] = h
	}
	l.spans, l.first, l.last = half, l.first>>1, l.last>>1
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func (l *timeline) list() Timeline {
	out := Timeline{WidthS: l.width, Spans: []Span{}}
	if l.width == 0 {
		return out
	}
	out.Start.Time = time.Unix(l.first*l.width, 0).UTC()
	for i := l.first; i <= l.last; i++ {
		out.Spans = append(out.Spans, l.spans[i])
	}
	return out
}

// A table counts by name. It has at most limit names: when a new one comes, the table first drops the half of its
// names that have the fewest visits. Therefore a name with many visits stays, and its row lacks at most `lost` visits.
type table[V any] struct {
	limit int
	rows  map[string]*V
	n     func(*V) int64 // what the rows are sorted by
	lost  int64
	full  bool // the table has dropped names
}

func newTable[V any](limit int, n func(*V) int64) *table[V] {
	return &table[V]{limit: limit, rows: map[string]*V{}, n: n}
}

// row returns the row of name. The caller increases it.
func (t *table[V]) row(name string) *V {
	v := t.rows[name]
	if v == nil {
		if len(t.rows) >= t.limit {
			t.drop()
		}
		v = new(V)
		t.rows[strings.Clone(name)] = v
	}
	return v
}

func (t *table[V]) drop() {
	names := t.names()
	kept := make(map[string]*V, t.limit)
	for _, name := range names[:t.limit/2] {
		kept[name] = t.rows[name]
	}
	if t.limit/2 < len(names) {
		t.lost += t.n(t.rows[names[t.limit/2]])
	}
	t.rows, t.full = kept, true
}

// names returns all names, the largest first.
func (t *table[V]) names() []string {
	return slices.SortedFunc(maps.Keys(t.rows), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.n(t.rows[b]), t.n(t.rows[a])), cmp.Compare(a, b))
	})
}

// A top keeps the greatest values. Of equal ones it keeps those that came first.
type top[V any] struct {
	limit int
	key   func(*V) int64
	list  []V // sorted, the greatest first
}

// wants reports whether a value with this key would enter the list.
func (t *top[V]) wants(key int64) bool {
	return len(t.list) < t.limit || key > t.key(&t.list[len(t.list)-1])
}

// add inserts v if the list wants it.
func (t *top[V]) add(v V) {
	key := t.key(&v)
	if !t.wants(key) {
		return
	}
	if len(t.list) == t.limit {
		t.list = t.list[:t.limit-1]
	}
	at, _ := slices.BinarySearchFunc(t.list, key, func(e V, key int64) int {
		if t.key(&e) >= key { // equal ones come before
			return -1
		}
		return 1
	})
	t.list = slices.Insert(t.list, at, v)
}
