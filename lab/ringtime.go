package lab

import (
	"runtime"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
)

// A RingTime holds the times of look-ups and of changes of the agents.
type RingTime struct {
	Way    string `json:"way"`
	Agents int    `json:"agents"`
	// Owner is the time of a look-up of the owner, Next of the owner and the next nearest
	// agent, in ns.
	Owner float64 `json:"owner_ns"`
	Next  float64 `json:"next_ns"`
	// New builds it, With adds an agent, Without removes one.
	New     time.Duration `json:"new_ns"`
	With    time.Duration `json:"with_ns"`
	Without time.Duration `json:"without_ns"`
	Bytes   int64         `json:"bytes"`

	k int
}

const (
	ringRounds = 5 // measurements of a change; the fastest counts
	// lookupRounds are short, so that some of them are not interrupted by other processes.
	// Each round looks up other hosts.
	lookupRounds, ringLookups = 100, 20_000
)

// timeRing measures the times of a way with agents.
func timeRing(w way, agents []placement.Owner, keys []uint64) (RingTime, error) {
	r := RingTime{Way: w.name, Agents: len(agents), k: w.k}
	before := heap()
	d, err := w.build(agents)
	if err != nil {
		return r, err
	}
	r.Bytes = heap() - before
	ns := func(f func(key uint64)) float64 {
		n, from := min(len(keys), ringLookups), 0
		return float64(fastest(lookupRounds, func() {
			for _, key := range keys[from : from+n] {
				f(key)
			}
			if from += n; from+n > len(keys) {
				from = 0
			}
		})) / float64(n)
	}
	total := 0
	// The call through f adds about a nanosecond to each look-up, in both ways.
	r.Owner = ns(func(key uint64) { total += len(d.Owner(key).Name) })
	buf := make([]placement.Owner, 0, 2)
	r.Next = ns(func(key uint64) {
		buf = d.Nearest(buf[:0], key, 2)
		total += len(buf)
	})
	runtime.KeepAlive(total) // so that the compiler does not remove the look-ups
	// The test measures a slow change once.
	again := ringRounds
	if w.draws(len(agents)) > quickDraws {
		again = 1
	}
	r.New = fastest(again, func() { _, err = w.build(agents) })
	if err != nil {
		return r, err
	}
	r.With = fastest(ringRounds, func() { _, err = w.join(d, placement.Owner{Name: "newcomer", Capacity: 1}) })
	if err != nil {
		return r, err
	}
	r.Without = fastest(ringRounds, func() { _, err = w.leave(d, agents[0].Name) })
	runtime.KeepAlive(d)
	return r, err
}

// fastest returns the time of the fastest of n calls.
func fastest(n int, f func()) time.Duration {
	best := time.Duration(0)
	for i := range n {
		start := time.Now()
		f()
		if d := time.Since(start); i == 0 || d < best {
			best = d
		}
	}
	return best
}

// heap returns the bytes of the heap in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // frees what the finalizers of the first collection released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
