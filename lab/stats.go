package lab

import (
	"cmp"
	"slices"
	"time"
)

// number is a type of numbers with a median.
type number interface {
	~int | ~int64 | ~float64
	cmp.Ordered
}

// Median returns the median of v. For an even number of values it is the mean of the two middle
// values; for none it is 0.
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

// A Sample is the state of a crawl at a moment.
type Sample struct {
	At       time.Duration `json:"-"` // since the start of the crawl
	Pages    int64         `json:"pages"`
	Resident int64         `json:"resident_bytes"` // resident memory in bytes
	// Processor time so far, of the agent and of the web.
	CPU    time.Duration `json:"cpu_ns"`
	WebCPU time.Duration `json:"web_cpu_ns"`
}

// Tenths returns the pages/s of each tenth of a crawl's pages. samples are in the order of time;
// Tenths interpolates between them. The first tenth begins at the sample with the first page.
// Tenths returns nil if there are too few samples.
func Tenths(samples []Sample) []float64 {
	if len(samples) < 2 {
		return nil
	}
	first, last := samples[0], samples[len(samples)-1]
	total := last.Pages - first.Pages
	if total < 10 {
		return nil
	}
	// when returns the time at which the crawl had a number of pages.
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
