package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

func TestPercentiles(t *testing.T) {
	rng := testseed.Rand(t)
	for _, most := range []int64{1, 15, 40, 1000, 1 << 20, 1 << 62} {
		var h histogram
		var values []int64
		for range 2000 {
			v := rng.Int64N(most + 1)
			values = append(values, v)
			h.add(v)
		}
		slices.Sort(values)
		p := h.percentiles()
		for i, got := range []int64{p.P50, p.P90, p.P95, p.P99} {
			want := values[[]int{999, 1799, 1899, 1979}[i]]
			if diff := float64(got - want); max(diff, -diff) > 0.04*float64(want)+0.5 {
				t.Errorf("most %d, percentile %d: %d, want %d", most, i, got, want)
			}
		}
		if p.Max != values[1999] || p.Count != 2000 {
			t.Errorf("most %d: %+v", most, p)
		}
	}
	if p := new(histogram).percentiles(); p != (Percentiles{}) {
		t.Errorf("empty: %+v", p)
	}
}

func TestBars(t *testing.T) {
	b := newBars(0, 10, 20)
	for _, v := range []int64{10, 19, 20, 1 << 62} {
		b.add(v)
	}
	if got, want := b.list(), []Bar{{10, 20, 2}, {20, 0, 2}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	b.add(-1)
	if got := b.list()[0]; got != (Bar{0, 10, 1}) {
		t.Errorf("got %v", got)
	}
}

// A timeline has a bounded number of spans and loses nothing, in whichever order the times come.
func TestTimeline(t *testing.T) {
	rng := testseed.Rand(t)
	for _, whole := range []int64{1, 100, maxSpans, maxSpans + 1, 86_400, 1 << 30} {
		var l timeline
		counts := map[int64]int64{}
		for range 1000 {
			s := at.Unix() - rng.Int64N(whole)
			counts[s]++
			l.add(time.Unix(s, 0), func(s *Span) { s.Pages++; s.Bytes += 2 })
		}
		got := l.list()
		if len(got.Spans) > maxSpans || got.WidthS > 1 && int64(len(got.Spans)) < maxSpans/2 {
			t.Errorf("%d s: %d spans of %d s", whole, len(got.Spans), got.WidthS)
		}
		for i, s := range got.Spans {
			var want int64
			from := got.Start.Unix() + int64(i)*got.WidthS
			for s, n := range counts {
				if s >= from && s < from+got.WidthS {
					want += n
				}
			}
			if s.Pages != want || s.Bytes != 2*want {
				t.Fatalf("%d s, span %d: %+v, want %d", whole, i, s, want)
			}
		}
	}
	var l timeline
	l.add(time.Unix(-1, 0), func(s *Span) { s.Pages++ })
	l.add(time.Unix(-1000, 0), func(s *Span) { s.Pages++ })
	if got := l.list(); got.Spans[0].Pages != 1 || got.Spans[len(got.Spans)-1].Pages != 1 {
		t.Errorf("before 1970: %+v", got)
	}
}

// A table has at most its limit of rows. A row lacks at most `lost`, and nothing while the table has dropped nothing.
func TestTable(t *testing.T) {
	rng := testseed.Rand(t)
	for round := range 20 {
		limit := 2 + rng.IntN(50)
		names := 1 + rng.IntN(4*limit)
		tab := newTable(limit, func(c *Count) int64 { return c.Count })
		want := map[string]int64{}
		for range 5000 {
			// The product of two draws prefers small numbers.
			name := fmt.Sprint(rng.IntN(1+rng.IntN(names)) * rng.IntN(2))
			want[name]++
			tab.row(name).Count++
			if len(tab.rows) > limit {
				t.Fatalf("%d rows, limit %d", len(tab.rows), limit)
			}
		}
		if !tab.full && (len(tab.rows) != len(want) || tab.lost != 0) {
			t.Fatalf("round %d: %d rows, lost %d, want %d", round, len(tab.rows), tab.lost, len(want))
		}
		for name, n := range want {
			got := int64(0)
			if c := tab.rows[name]; c != nil {
				got = c.Count
			}
			if got > n || got < n-tab.lost {
				t.Errorf("round %d, %s: %d of %d, lost at most %d", round, name, got, n, tab.lost)
			}
		}
	}
}

func TestTop(t *testing.T) {
	rng := testseed.Rand(t)
	for range 50 {
		l := top[Visit]{limit: 1 + rng.IntN(20), key: func(v *Visit) int64 { return v.MS }}
		var all []Visit
		for i := range rng.IntN(60) {
			v := Visit{URL: fmt.Sprint(i), MS: rng.Int64N(10)}
			all = append(all, v)
			l.add(v)
		}
		slices.SortStableFunc(all, func(a, b Visit) int { return cmp.Compare(b.MS, a.MS) })
		if want := all[:min(len(all), l.limit)]; !slices.Equal(l.list, want) {
			t.Fatalf("got %v, want %v", l.list, want)
		}
	}
}

// The memory of a review is bounded by the number of names and entries that it keeps, and by their lengths.
func TestBoundedMemory(t *testing.T) {
	w := newWorld(t)
	const top, names = 5, 100
	long := strings.Repeat("x", 50_000)
	var lines []report.Line
	for i := range 400 {
		host := fmt.Sprintf("h%d.example", i%(3*names)+i%2*1000*i)
		url := fmt.Sprintf("http://%s/%d/%s", host, i, long[:i%40*1000])
		p := page(url, int64(i), int64(i))
		p.Digest, p.HasDigest, p.Notes = [20]byte{byte(i), byte(i >> 8)}, true, []string{"duplicate:digest"}
		lines = append(lines, p,
			status(301, url+"/r", "L", url),
			status(404, url+"/b", "LRR", url+"/r", fmt.Sprintf("error:kind%d", i), "cause:"+long),
			report.Line{Code: report.CodeRobotsDenied, Size: -1, URL: url, Notes: []string{"rule:" + long}})
		lines[len(lines)-4].MIME = fmt.Sprintf("text/t%d", i)
	}
	w.log("a", lines...)
	r := &reader{Config: Config{Top: top, Names: names}, ctx: t.Context(), fs: w.fs, out: &Review{}}
	r.log = newLogCounts(top, names)
	must.Do(t, r.readLog(&Dir{Path: "a"}, r.newBroken(), true))
	c := r.log
	if c.totals.Visits != 1600 || c.totals.Pages != 400 {
		t.Errorf("totals: %+v", c.totals)
	}
	for name, n := range map[string]int{"hosts": len(c.hosts.rows), "errors": len(c.errors.rows),
		"types":  len(c.mimes.rows),
		"robots": len(c.robots.rows), "copies": len(c.copies.rows), "redirects": len(c.chains.waiting),
		"order": len(c.chains.order)} {
		if n > names || n == 0 {
			t.Errorf("%s: %d, at most %d", name, n, names)
		}
	}
	for name, n := range map[string]int{"slowest": len(c.slowest.list), "largest": len(c.largest.list),
		"chains": len(c.chains.top.list), "ends": len(c.chains.last)} {
		if n > top || n == 0 {
			t.Errorf("%s: %d, at most %d", name, n, top)
		}
	}
	for name, v := range c.errors.rows {
		if len(name) > maxText || len(v.Example) > maxText+len(Cut) {
			t.Errorf("a text of %d bytes", len(v.Example))
		}
	}
	c.into(r.out)
	if !r.out.AtLeast || r.out.LeastCount == 0 {
		t.Errorf("the review does not say that its tables were full: %+v", r.out.Totals)
	}
}
