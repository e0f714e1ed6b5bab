package lab

import (
	"math/bits"
	"time"
)

// Latencies counts times in classes a thirty-second wide of what they hold, so that
// any percentile of any number of them is known to 3 %, in a few kilobytes. The
// zero Latencies is empty.
type Latencies struct {
	classes [60 << latencyBits]int64
	n       int64
	longest time.Duration
}

const latencyBits = 5

// Add counts a time.
func (l *Latencies) Add(d time.Duration) {
	d = max(d, 0)
	l.classes[classOf(uint64(d))]++
	l.n++
	l.longest = max(l.longest, d)
}

// Merge counts all of m's times.
func (l *Latencies) Merge(m *Latencies) {
	for i, n := range m.classes {
		l.classes[i] += n
	}
	l.n += m.n
	l.longest = max(l.longest, m.longest)
}

// classOf is the class of v: the first have one value each.
func classOf(v uint64) int {
	e := max(bits.Len64(v)-latencyBits-1, 0)
	return e<<latencyBits + int(v>>e)
}

// topOf is the largest value of a class.
func topOf(class int) uint64 {
	if class < 2<<latencyBits {
		return uint64(class)
	}
	e := class>>latencyBits - 1
	return uint64(class-e<<latencyBits+1)<<e - 1
}

// Quantile is the time that share q of the times do not exceed; 0 of none.
func (l *Latencies) Quantile(q float64) time.Duration {
	rank := int64(q * float64(l.n))
	for i, n := range l.classes {
		if rank -= n; n > 0 && rank < 0 {
			return min(time.Duration(topOf(i)), l.longest)
		}
	}
	return l.longest
}

// Spread are the percentiles that tables show.
func (l *Latencies) Spread() Percentiles {
	return Percentiles{l.Quantile(0.5), l.Quantile(0.99), l.Quantile(0.999), l.longest}
}

// Percentiles are the 50th, the 99th, the 99.9th, and the longest.
type Percentiles struct {
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p99_9_ns"`
	Max  time.Duration `json:"max_ns"`
}
