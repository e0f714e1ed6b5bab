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

// A reader counts what an agent reads from one connection to the web. Safe for concurrent use.
type reader struct {
	all *reads

	mu   sync.Mutex // guards the fields below
	n    int        // bytes that were read
	ends []responseEnd
}

// A responseEnd is the end of a response that the web has written.
type responseEnd struct {
	at   int // bytes before it
	read func()
}

// add notes that the agent has read n bytes.
func (r *reader) add(n int) {
	r.all.add(n)
	r.mu.Lock()
	r.n += n
	var done []responseEnd
	for len(r.ends) > 0 && r.ends[0].at <= r.n {
		done, r.ends = append(done, r.ends[0]), r.ends[1:]
	}
	r.mu.Unlock()
	for _, e := range done {
		e.read()
	}
}

// when calls f as soon as the agent has read n bytes of the connection, and never if it does not read so many. Calls
// are in the order of n.
func (r *reader) when(n int, f func()) {
	r.mu.Lock()
	if r.n < n {
		r.ends = append(r.ends, responseEnd{n, f})
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	f()
}
