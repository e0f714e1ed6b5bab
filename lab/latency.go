package lab

import (
	"math/bits"
	"time"
)

// Latencies is a histogram of times. The width of each class is a thirty-second of its values,
// so that percentiles are exact to 3 %. It takes a few kilobytes for any number of times. The
// zero Latencies is empty.
type Latencies struct {
	classes [60 << latencyBits]int64
	n       int64
	longest time.Duration
}

const latencyBits = 5

// Add adds a time.
func (l *Latencies) Add(d time.Duration) {
	d = max(d, 0)
	l.classes[classOf(uint64(d))]++
	l.n++
	l.longest = max(l.longest, d)
}

// classOf returns the class of v. The first classes hold one value each.
func classOf(v uint64) int {
	e := max(bits.Len64(v)-latencyBits-1, 0)
	return e<<latencyBits + int(v>>e)
}

// topOf returns the largest value of a class.
func topOf(class int) uint64 {
	if class < 2<<latencyBits {
		return uint64(class)
	}
	e := class>>latencyBits - 1
	return uint64(class-e<<latencyBits+1)<<e - 1
}

// Quantile returns the time that the share q of the times does not exceed, or 0 if there are
// no times.
func (l *Latencies) Quantile(q float64) time.Duration {
	rank := int64(q * float64(l.n))
	for i, n := range l.classes {
		if rank -= n; n > 0 && rank < 0 {
			return min(time.Duration(topOf(i)), l.longest)
		}
	}
	return l.longest
}

// Spread returns the percentiles that tables show.
func (l *Latencies) Spread() Percentiles {
	return Percentiles{l.Quantile(0.5), l.Quantile(0.99), l.Quantile(0.999), l.longest}
}

// Percentiles are the 50th, the 99th and the 99.9th percentile, and the longest time.
type Percentiles struct {
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p99_9_ns"`
	Max  time.Duration `json:"max_ns"`
}
