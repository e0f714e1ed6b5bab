package lab

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v      []float64
		median float64
	}{{nil, 0}, {[]float64{5}, 5}, {[]float64{9, 1}, 5}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{-1, 1}, 0}} {
		given := slices.Clone(c.v)
		if got := Median(c.v); got != c.median {
			t.Errorf("Median(%v) = %v, want %v", c.v, got, c.median)
		}
		if !slices.Equal(c.v, given) {
			t.Errorf("%v was sorted in place", given)
		}
	}
	if got := Median([]time.Duration{3, 9, 6}); got != 6 {
		t.Errorf("Median of durations = %v, want 6", got)
	}
}

func TestTenths(t *testing.T) {
	// 100 pages/s for 5 s, then 50.
	samples := []Sample{{}, {At: 5 * time.Second, Pages: 500}, {At: 7 * time.Second, Pages: 500},
		{At: 15 * time.Second, Pages: 900}, {At: 17 * time.Second, Pages: 1000}}
	got := Tenths(samples)
	// The sixth tenth contains the two seconds without a page.
	want := []float64{100, 100, 100, 100, 100, 25, 50, 50, 50, 50}
	if len(got) != 10 {
		t.Fatalf("Tenths = %v", got)
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-6 {
			t.Errorf("tenth %d: %v pages/s, want %v", i+1, got[i], want[i])
		}
	}
	for _, few := range [][]Sample{nil, {{}}, {{}, {At: time.Second, Pages: 9}}} {
		if got := Tenths(few); got != nil {
			t.Errorf("Tenths(%v) = %v, want none", few, got)
		}
	}
}

// All tenths together take the time of the samples.
func TestTenthsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := []Sample{{}}
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			last := samples[len(samples)-1]
			samples = append(samples, Sample{
				At:    last.At + time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms"))*time.Millisecond,
				Pages: last.Pages + int64(rapid.IntRange(0, 1000).Draw(t, "pages")),
			})
		}
		rates := Tenths(samples)
		if rates == nil {
			return
		}
		// The samples before the first page and after the last page are left out.
		last := samples[len(samples)-1]
		end := samples[slices.IndexFunc(samples, func(s Sample) bool { return s.Pages == last.Pages })].At
		sum := 0.0
		for _, r := range rates {
			if r <= 0 {
				t.Fatalf("rates %v", rates)
			}
			sum += float64(last.Pages) / 10 / r
		}
		begin := samples[slices.IndexFunc(samples, func(s Sample) bool { return s.Pages > 0 })-1].At
		if took := (end - begin).Seconds(); math.Abs(sum-took) > 1e-6*took+1e-9 {
			t.Fatalf("the tenths take %v s, the samples %v", sum, took)
		}
	})
}
