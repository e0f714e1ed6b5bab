package sim

import (
	"sync"
	"time"
)

// reads are the bytes that agents have read. Safe for concurrent use.
type reads struct {
	mu  sync.Mutex // guards all
	all []amount
}

// An amount is something that happens at a time: a request, or some bits that are read.
type amount struct {
	at time.Duration // since the story began
	n  float64
}

// add notes that an agent has read n bytes.
func (r *reads) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, amount{time.Since(start), 8 * float64(n)})
}
