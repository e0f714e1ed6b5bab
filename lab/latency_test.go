package lab

import (
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// Percentiles are within a thirty-second of those of the sorted times.
func TestLatencies(t *testing.T) {
	r := testseed.Rand(t)
	var all Latencies
	var times []time.Duration
	for range 20_000 {
		d := time.Duration(r.Uint64N(1 << r.UintN(45)))
		all.Add(d)
		times = append(times, d)
	}
	slices.Sort(times)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999} {
		want := times[int(q*float64(len(times)))]
		got := all.Quantile(q)
		if got < want || got > want+want/32 {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	if p := all.Spread(); p.Max != times[len(times)-1] || p.P50 > p.P99 || p.P99 > p.P999 || p.P999 > p.Max {
		t.Errorf("%+v, the longest is %v", p, times[len(times)-1])
	}
	var none Latencies
	if none.Quantile(0.5) != 0 {
		t.Error("the median of nothing")
	}
}

// Each value belongs to the class that ends at or above it, and the classes are contiguous.
func TestLatencyClasses(t *testing.T) {
	last := uint64(0)
	for class := range 60 << latencyBits {
		top := topOf(class)
		if class > 0 && top <= last || classOf(top) != class || top < 1<<59 && classOf(top+1) != class+1 {
			t.Fatalf("class %d ends at %d, the one before at %d", class, top, last)
		}
		last = top
		if top > 1<<58 {
			return
		}
	}
}
