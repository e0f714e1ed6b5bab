package lab

import (
	"cmp"
	"slices"
	"time"
)

// A number can be the middle of others.
type number interface {
	~int | ~int64 | ~float64
	cmp.Ordered
}

// Median is the one in the middle, of an even number the mean of the two; 0 of none.
func Median[T number](v []T) T {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	n := len(s) / 2
	if len(s)%2 == 0 {
		return s[n-1] + (s[n]-s[n-1])/2
	}
	return s[n]
}

// Spread is the difference of greatest and least, as a share of the median; 0
// of fewer than two.
func Spread[T number](v []T) float64 {
	m := Median(v)
	if len(v) < 2 || m == 0 {
		return 0
	}
	return float64(slices.Max(v)-slices.Min(v)) / float64(m)
}

// A Sample is how a crawl stood at a moment.
type Sample struct {
	At       time.Duration // since its start
	Pages    int64
	Resident int64 // bytes of memory
	// Processor time until then, of the agent and of the web.
	CPU, WebCPU time.Duration
}

// Tenths are the pages/s of each tenth of a crawl's pages, from samples in
// order of time. The first tenth begins with the first page's sample; between two
// samples the pages are taken to come evenly. It is nil where there is too little to say.
func Tenths(samples []Sample) []float64 {
	if len(samples) < 2 {
		return nil
	}
	first, last := samples[0], samples[len(samples)-1]
	total := last.Pages - first.Pages
	if total < 10 {
		return nil
	}
	// when is the time at which that many pages were there.
	when := func(pages float64) float64 {
		for i := 1; i < len(samples); i++ {
			a, b := samples[i-1], samples[i]
			if float64(b.Pages) < pages || b.Pages == a.Pages {
				continue
			}
			part := (pages - float64(a.Pages)) / float64(b.Pages-a.Pages)
			return a.At.Seconds() + max(part, 0)*(b.At-a.At).Seconds()
		}
		return last.At.Seconds()
	}
	rates := make([]float64, 10)
	from := when(float64(first.Pages))
	for i := range rates {
		to := when(float64(first.Pages) + float64(total)*float64(i+1)/10)
		if to > from {
			rates[i] = float64(total) / 10 / (to - from)
		}
		from = to
	}
	return rates
}
